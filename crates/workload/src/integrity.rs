//! YCSB's data-integrity text (`CoreWorkload.buildDeterministicValue`), made of key and field.
//!
//! Key, colon, field name, and then again and again a colon and the Java hash of all text before
//! the hash, cut to length. YCSB computes each hash from the beginning; here it is carried along.

use crate::decimal::Decimal;

/// The text so far: its Java `String.hashCode` and what may still follow. Java hashes UTF-16 units,
/// which for the ASCII text of keys and field names are its bytes.
struct Text<E> {
    hash: i32,
    remaining: usize,
    emit: E,
}

impl<E: FnMut(&[u8]) -> bool> Text<E> {
    /// Appends a piece, cut to the length; false when the text is full or no more is wanted.
    #[inline]
    fn push(&mut self, piece: &[u8]) -> bool {
        let piece = &piece[..piece.len().min(self.remaining)];
        self.hash = java_hash(self.hash, piece);
        self.remaining -= piece.len();
        (self.emit)(piece) && self.remaining > 0
    }
}

/// Java's `String.hashCode` continued: `hash * 31 + byte` for each byte, four at a time, because
/// each step waits for the one before.
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
fn text_of(key: &[u8], field_name: &[u8], length: usize, emit: impl FnMut(&[u8]) -> bool) {
    let mut text = Text { hash: 0, remaining: length, emit };
    if !(text.push(key) && text.push(b":") && text.push(field_name)) {
        return;
    }
    while text.push(b":") {
        let (hash, length) = Decimal::of(text.hash < 0, text.hash.unsigned_abs().into()).written();
        if !text.push(&hash[..length]) {
            return;
        }
    }
}

/// Appends a field's text.
pub(crate) fn append(key: &[u8], field_name: &[u8], length: usize, bytes: &mut Vec<u8>) {
    bytes.reserve(length);
    text_of(key, field_name, length, |piece| {
        bytes.extend_from_slice(piece);
        true
    });
}

/// Whether the bytes are a field's text of their length.
pub(crate) fn matches(key: &[u8], field_name: &[u8], found: &[u8]) -> bool {
    let mut rest = found;
    text_of(key, field_name, found.len(), |piece| match rest.strip_prefix(piece) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    });
    rest.is_empty()
}
