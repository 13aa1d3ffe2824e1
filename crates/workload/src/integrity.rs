//! YCSB's data-integrity text (`CoreWorkload.buildDeterministicValue`), made of key and field.
//!
//! Key, colon, field name, and then again and again a colon and the Java hash of all text before
//! the hash, cut to length. YCSB computes each hash from the beginning; here it is carried along.

use crate::decimal::Decimal;

/// A record's key, with its hash, which the texts of all its fields go on from.
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

/// What stands behind the key in a field's texts: its name between colons.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    text: Vec<u8>,
    hash: i32,
    /// By which the hash of what stands before is multiplied.
    weight: i32,
}

impl Field {
    pub(crate) fn named(name: &str) -> Self {
        let text = format!(":{name}:").into_bytes();
        let weight = text.iter().fold(1_i32, |weight, _| weight.wrapping_mul(31));
        Self { hash: java_hash(0, &text), weight, text }
    }
}

/// Java's `String.hashCode` continued: `hash * 31 + byte` for each byte, four at a time, because
/// each step waits for the one before. Java hashes UTF-16 units, which for the ASCII text of keys
/// and field names are its bytes.
#[inline]
fn java_hash(hash: i32, bytes: &[u8]) -> i32 {
    let add = |hash: i32, byte: &u8| hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
    let (fours, rest) = bytes.as_chunks::<4>();
    let hash = fours.iter().fold(hash, |hash, four| {
        hash.wrapping_mul(31_i32.pow(4)).wrapping_add(four.iter().fold(0, add))
    });
    rest.iter().fold(hash, add)
}

/// Makes a field's text of a length and hands it on piece by piece, until `emit` answers false.
#[inline]
fn text_of(key: Key<'_>, field: &Field, length: usize, mut emit: impl FnMut(&[u8]) -> bool) {
    let mut remaining = length;
    let mut put = |piece: &[u8]| {
        let piece = &piece[..piece.len().min(remaining)];
        remaining -= piece.len();
        emit(piece) && remaining > 0
    };
    if !(put(key.text) && put(&field.text)) {
        return;
    }
    let mut hash = key.hash.wrapping_mul(field.weight).wrapping_add(field.hash);
    loop {
        let (mut digits, length) = Decimal::of(hash < 0, hash.unsigned_abs().into()).written();
        digits[length] = b':';
        let piece = &digits[..=length];
        if !put(piece) {
            return;
        }
        hash = java_hash(hash, piece);
    }
}

/// Appends a field's text.
pub(crate) fn append(key: Key<'_>, field: &Field, length: usize, bytes: &mut Vec<u8>) {
    bytes.reserve(length);
    text_of(key, field, length, |piece| {
        bytes.extend_from_slice(piece);
        true
    });
}

/// Whether the bytes are a field's text of their length.
pub(crate) fn matches(key: Key<'_>, field: &Field, found: &[u8]) -> bool {
    let (mut rest, mut matches) = (found, true);
    text_of(key, field, found.len(), |piece| {
        let (start, after) = rest.split_at(piece.len());
        rest = after;
        matches = is_same(start, piece);
        matches
    });
    matches
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
