//! Keys and values of the dataset's records.

use kvmark_plan::{Dataset, TAG_LENGTH, ValueKind, tag_length};

use crate::error::WorkloadError;
use crate::integrity::{self, Field, Key};
use crate::key::KeyWriter;
use crate::random::Seed;
use crate::size::Sizes;
use crate::value::append_noise;

/// Bits of a sized operation's number below the size.
const NUMBER_BITS: u32 = 40;
/// The longest value that a tape's operation can write.
const SIZE_MAX: u32 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// The number of an operation whose value has a size of its own, see [`ValueKind::Sized`]: of the
/// size no more is kept than 2^24 - 1 bytes, of the number its lower 40 bits.
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
pub struct Owner<'a> {
    /// Its ordinal, of which noise bears a tag.
    pub ordinal: u64,
    /// Its key, of which integrity texts are made; empty where there are none.
    pub key: &'a [u8],
}

/// What the noise of a record's fields begins with, so that a read of another record, or of what
/// other tools wrote, is seen. Characters from `0` to `O`, which stand for themselves in every
/// format: 40 bits of the ordinal's hash.
#[must_use]
#[inline]
pub const fn tag(ordinal: u64) -> [u8; TAG_LENGTH] {
    // The golden ratio's share of the numbers; its product's upper half is the mixed one.
    let product = ordinal.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let bits = (mixed ^ mixed >> 32) & 0x1F1F_1F1F_1F1F_1F1F;
    (bits + 0x3030_3030_3030_3030).to_le_bytes()
}

/// A [`Dataset`]'s keys by ordinal, and its fields' values by the number of what writes them.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    keys: KeyWriter,
    fields: Vec<Field>,
    field_length: Sizes,
    value_kind: ValueKind,
    values: Seed,
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
            keys: KeyWriter::new(&dataset.key),
            fields: (0..fields.count).map(field).collect(),
            field_length,
            value_kind: dataset.values,
            values,
        })
    }

    /// Fields of a record.
    #[inline]
    pub(crate) fn fields(&self) -> u32 {
        self.fields.len() as u32
    }

    /// Replaces `key` by the key of an ordinal. Allocates only while `key` grows.
    #[inline]
    pub(crate) fn key_into(&self, ordinal: u64, key: &mut Vec<u8>) {
        self.keys.write(ordinal, key);
    }

    /// Appends the key of an ordinal.
    #[inline]
    pub(crate) fn append_key(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        self.keys.append(ordinal, bytes);
    }

    /// Whether a field's value is made of its record's key.
    #[inline]
    pub(crate) fn values_hold_keys(&self) -> bool {
        self.value_kind == ValueKind::Integrity
    }

    /// The length of all values, where they have one.
    pub(crate) fn value_length(&self) -> Option<u64> {
        let is_drawn = self.value_kind != ValueKind::Sized;
        self.field_length.constant().filter(|_| is_drawn)
    }

    /// What the values of a record begin with; none where they are made otherwise.
    #[inline]
    pub(crate) fn tag(&self, ordinal: u64) -> Option<[u8; TAG_LENGTH]> {
        (self.value_kind == ValueKind::Random).then(|| tag(ordinal))
    }

    /// Appends the value of a field, as the element of this place in operation `number` writes it:
    /// 0 for the driver's own way, the command's place for a statement.
    #[inline]
    pub(crate) fn append_value(
        &self,
        number: u64,
        place: u64,
        field: u32,
        owner: Owner<'_>,
        bytes: &mut Vec<u8>,
    ) {
        self.append_value_of((number, self.values_of(number)), place, field, owner, bytes);
    }

    /// The length of what [`Self::append_value`] appends for the first field in the driver's own
    /// way, where a law says it.
    pub(crate) fn first_value_length(&self, number: u64) -> u64 {
        self.field_length.draw(&mut self.values_of(number).random(0))
    }

    /// What all values of operation `number` are made of.
    #[inline]
    pub(crate) fn values_of(&self, number: u64) -> Seed {
        self.values.within(number)
    }

    /// [`Self::append_value`] of an operation for which [`Self::values_of`] was asked.
    #[inline]
    pub(crate) fn append_value_of(
        &self,
        (number, values): (u64, Seed),
        place: u64,
        field: u32,
        owner: Owner<'_>,
        bytes: &mut Vec<u8>,
    ) {
        let mut random = values.random(u64::from(field) | place << 32);
        let length = self.field_length.draw(&mut random) as usize;
        match self.value_kind {
            ValueKind::Random => {
                let start = bytes.len();
                append_noise(&mut random, length, bytes);
                let tagged = tag_length(length);
                bytes[start..start + tagged].copy_from_slice(&tag(owner.ordinal)[..tagged]);
            }
            ValueKind::Sized => append_noise(&mut random, value_size(number), bytes),
            ValueKind::Integrity => {
                integrity::append(Key::of(owner.key), &self.fields[field as usize], length, bytes);
            }
        }
    }

    /// Whether the values read of a record, each with its field, are those that must be there: the
    /// integrity texts of key and field. Noise can't be told from its key, so it always passes.
    #[inline]
    pub(crate) fn expected<'a>(
        &self,
        key: &[u8],
        mut found: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> bool {
        if self.value_kind != ValueKind::Integrity {
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
