//! Keys and values of the dataset's records.

use std::sync::Arc;

use kvmark_plan::{Compressible, Dataset, Seed, TAG_LENGTH, ValueKind, tag_length};

use crate::compressible;
use crate::error::WorkloadError;
use crate::integrity::{self, Field, Key};
use crate::key::KeyWriter;
use crate::lines::Lines;
use crate::size::Sizes;
use crate::value::append_noise;

/// Bits of a sized operation's number below the size.
const NUMBER_BITS: u32 = 40;
/// The longest value of a tape's operation.
const SIZE_MAX: u32 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// The number of an operation with an individual value size, see [`ValueKind::Sized`]. Keeps a size
/// of up to 2^24 - 1 bytes and the lower 40 bits of the number.
#[must_use]
pub const fn sized(number: u64, size: u32) -> u64 {
    let size = if size < SIZE_MAX { size } else { SIZE_MAX };
    number & ((1 << NUMBER_BITS) - 1) | (size as u64) << NUMBER_BITS
}

/// The size in such a number.
const fn value_size(number: u64) -> usize {
    (number >> NUMBER_BITS) as usize
}

/// The record that a value belongs to.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its ordinal, which determines the tag.
    pub ordinal: u64,
    /// Its key, which determines integrity texts; empty without them.
    pub key: &'a [u8],
}

/// The start of the noise in a record's fields, so that a read of another record, or of another
/// tool's data, is detected. Has 40 bits of the ordinal's hash in characters from `0` to `O`, which
/// no format escapes.
#[must_use]
#[inline]
pub const fn tag(ordinal: u64) -> [u8; TAG_LENGTH] {
    // Only the upper half of the product is well mixed.
    let product = ordinal.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let bits = (mixed ^ mixed >> 32) & 0x1F1F_1F1F_1F1F_1F1F;
    (bits + 0x3030_3030_3030_3030).to_le_bytes()
}

/// Replaces the start of a value's noise by its record's tag.
#[inline]
fn put_tag(ordinal: u64, value: &mut [u8]) {
    let tagged = tag_length(value.len());
    value[..tagged].copy_from_slice(&tag(ordinal)[..tagged]);
}

/// A [`Dataset`]'s keys by ordinal, and its fields' values by the number of the writing operation.
#[derive(Clone, Debug)]
pub struct Records {
    keys: KeyWriter,
    fields: Vec<Field>,
    field_length: Sizes,
    content: Content,
    values: Seed,
}

/// A [`ValueKind`], with the lines in memory.
#[derive(Clone, Debug)]
enum Content {
    Random,
    Compressible(Compressible),
    Lines(Arc<Lines>),
    Integrity,
    Sized,
}

impl Content {
    fn new(kind: &ValueKind) -> Result<Self, WorkloadError> {
        Ok(match kind {
            ValueKind::Random => Self::Random,
            ValueKind::Compressible(law) => Self::Compressible(*law),
            ValueKind::Lines(file) => Self::Lines(Lines::open(file)?),
            ValueKind::Integrity => Self::Integrity,
            ValueKind::Sized => Self::Sized,
        })
    }
}

impl Records {
    /// The records of a dataset; `values` is the seed of their noise.
    pub(crate) fn new(dataset: &Dataset, values: Seed) -> Result<Self, WorkloadError> {
        let fields = &dataset.fields;
        let field_length = Sizes::new(&fields.length, "dataset.fields.length")?;
        if dataset.values == ValueKind::Integrity && field_length.constant().is_none() {
            return Err(WorkloadError::VaryingIntegrity);
        }
        let field = |number| Field::named(&format!("{}{number}", fields.name_prefix));
        Ok(Self {
            keys: KeyWriter::of_records(&dataset.key)?,
            fields: (0..fields.count).map(field).collect(),
            field_length,
            content: Content::new(&dataset.values)?,
            values,
        })
    }

    /// Fields of a record.
    #[must_use]
    #[inline]
    pub fn fields(&self) -> u32 {
        self.fields.len() as u32
    }

    /// Replaces `key` by the key of an ordinal. Allocates only while `key` grows.
    #[inline(always)]
    pub fn key_into(&self, ordinal: u64, key: &mut Vec<u8>) {
        key.clear();
        self.keys.append(ordinal, key);
    }

    /// Appends the key of an ordinal.
    #[inline]
    pub(crate) fn append_key(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        self.keys.append(ordinal, bytes);
    }

    /// Whether a field's value depends on its record's key.
    #[inline]
    pub(crate) fn values_hold_keys(&self) -> bool {
        matches!(self.content, Content::Integrity)
    }

    /// The length of all values, if it is constant.
    #[must_use]
    pub fn value_length(&self) -> Option<u64> {
        let is_drawn = !matches!(self.content, Content::Sized | Content::Lines(_));
        self.field_length.constant().filter(|_| is_drawn)
    }

    /// The tag of a record's values; `None` for kinds of values without tags.
    #[must_use]
    #[inline]
    pub fn tag(&self, ordinal: u64) -> Option<[u8; TAG_LENGTH]> {
        let is_tagged = matches!(self.content, Content::Random | Content::Compressible(_));
        is_tagged.then(|| tag(ordinal))
    }

    /// Appends the value of a field as written by one element of operation `number`. `place` is 0
    /// for the driver's own way, and the command's place for a statement.
    #[inline]
    pub fn append_value(
        &self,
        number: u64,
        place: u64,
        field: u32,
        record: RecordRef<'_>,
        bytes: &mut Vec<u8>,
    ) {
        self.append_value_of((number, self.values_of(number)), place, field, record, bytes);
    }

    /// The length of the first field's value in the driver's own way.
    #[must_use]
    pub fn first_value_length(&self, number: u64) -> u64 {
        let mut random = self.values_of(number).random(0);
        let length = self.field_length.draw(&mut random);
        match &self.content {
            Content::Lines(lines) => lines.draw(&mut random).len() as u64,
            _ => length,
        }
    }

    /// The seed of all values of operation `number`.
    #[inline]
    pub(crate) fn values_of(&self, number: u64) -> Seed {
        self.values.within(number)
    }

    /// [`Self::append_value`] with the operation's number and [`Self::values_of`].
    #[inline]
    pub(crate) fn append_value_of(
        &self,
        (number, values): (u64, Seed),
        place: u64,
        field: u32,
        record: RecordRef<'_>,
        bytes: &mut Vec<u8>,
    ) {
        let mut random = values.random(u64::from(field) | place << 32);
        let length = self.field_length.draw(&mut random) as usize;
        let start = bytes.len();
        match &self.content {
            Content::Random => {
                append_noise(&mut random, length, bytes);
                put_tag(record.ordinal, &mut bytes[start..]);
            }
            Content::Lines(lines) => bytes.extend_from_slice(lines.draw(&mut random)),
            Content::Compressible(law) => {
                compressible::append(*law, &mut random, field, length, bytes);
                put_tag(record.ordinal, &mut bytes[start..]);
            }
            Content::Sized => append_noise(&mut random, value_size(number), bytes),
            Content::Integrity => {
                integrity::append(Key::of(record.key), &self.fields[field as usize], length, bytes);
            }
        }
    }

    /// Whether the values of a record, each with its field, are the integrity texts of key and
    /// field. Noise doesn't depend on the key, so it always passes.
    #[inline]
    pub fn expected<'a>(
        &self,
        key: &[u8],
        mut found: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> bool {
        if !self.values_hold_keys() {
            return true;
        }
        let key = Key::of(key);
        found.all(|(field, value)| {
            let field = self.fields.get(field as usize);
            self.field_length.constant() == Some(value.len() as u64)
                && field.is_some_and(|field| integrity::matches(key, field, value))
        })
    }
}
