//! YCSB's data-integrity text (`CoreWorkload.buildDeterministicValue`), a function of key and
//! field.
//!
//! Key, colon, field name, then repeatedly a colon and the Java hash of all text before the hash,
//! cut to length. YCSB computes each hash from the beginning; this code continues it.

use crate::decimal::{Decimal, ROOM};

/// A record's key, with its hash, which the texts of all fields continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    text: &'a [u8],
    hash: i32,
}

impl<'a> Key<'a> {
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Self { text, hash: java_hash(0, text) }
    }
}

/// The text after the key: the field's name between colons.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    text: Vec<u8>,
    hash: i32,
    /// Factor of the hash of the preceding text.
    weight: i32,
}

impl Field {
    pub(crate) fn named(name: &str) -> Self {
        let text = format!(":{name}:").into_bytes();
        let weight = text.iter().fold(1_i32, |weight, _| weight.wrapping_mul(31));
        Self { hash: java_hash(0, &text), weight, text }
    }
}

/// Java's `String.hashCode`, continued: `hash * 31 + byte` for each byte, four at a time to shorten
/// the dependency chain. Java hashes UTF-16 units, which are the bytes of the ASCII text of keys
/// and field names.
#[inline]
fn java_hash(hash: i32, bytes: &[u8]) -> i32 {
    let add = |hash: i32, byte: &u8| hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
    let (fours, rest) = bytes.as_chunks::<4>();
    let hash = fours.iter().fold(hash, |hash, four| {
        hash.wrapping_mul(31_i32.pow(4)).wrapping_add(four.iter().fold(0, add))
    });
    rest.iter().fold(hash, add)
}

/// The hashes of a field's text, each with the following colon.
struct Hashes {
    /// Hash of the text before the last piece.
    hash: i32,
    text: [u8; ROOM],
    length: usize,
}

impl Hashes {
    /// The hashes after key and name.
    #[inline]
    fn behind(key: Key<'_>, field: &Field) -> Self {
        let hash = key.hash.wrapping_mul(field.weight).wrapping_add(field.hash);
        Self { hash, text: [0; ROOM], length: 0 }
    }

    /// The next one, cut to a length.
    #[inline]
    fn next(&mut self, most: usize) -> &[u8] {
        // Computed only now, because the hash of the text's end isn't needed.
        self.hash = java_hash(self.hash, &self.text[..self.length]);
        let digits = Decimal::of(self.hash < 0, self.hash.unsigned_abs().into());
        let length = digits.write_to(&mut self.text);
        self.text[length] = b':';
        self.length = length + 1;
        &self.text[..self.length.min(most)]
    }
}

/// Appends a field's text.
pub(crate) fn append(key: Key<'_>, field: &Field, length: usize, bytes: &mut Vec<u8>) {
    bytes.reserve(length);
    let end = bytes.len() + length;
    for piece in [key.text, &field.text] {
        bytes.extend_from_slice(&piece[..piece.len().min(end - bytes.len())]);
    }
    let mut hashes = Hashes::behind(key, field);
    while bytes.len() < end {
        bytes.extend_from_slice(hashes.next(end - bytes.len()));
    }
}

/// Whether the bytes are a field's text of their length.
pub(crate) fn matches(key: Key<'_>, field: &Field, found: &[u8]) -> bool {
    let mut rest = found;
    let mut begins_with = |piece: &[u8]| {
        let (start, after) = rest.split_at(piece.len().min(rest.len()));
        rest = after;
        is_same(start, &piece[..start.len()]).then_some(after.len())
    };
    let Some(_) = begins_with(key.text) else { return false };
    let Some(mut left) = begins_with(&field.text) else { return false };
    let mut hashes = Hashes::behind(key, field);
    while left > 0 {
        let Some(after) = begins_with(hashes.next(left)) else { return false };
        left = after;
    }
    true
}

/// Whether two texts of one length are the same. Those of up to 16 bytes are compared by their two
/// ends, which is less work than a call.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    match one.len() {
        4..=8 => ends::<4>(one) == ends::<4>(other),
        9..=16 => ends::<8>(one) == ends::<8>(other),
        _ => one == other,
    }
}

#[inline]
fn ends<const N: usize>(text: &[u8]) -> Option<([u8; N], [u8; N])> {
    Some((*text.first_chunk()?, *text.last_chunk()?))
}
