//! Ordinal to key text, as in YCSB's `CoreWorkload.buildKeyName`.

use std::sync::Arc;

use kvmark_plan::{KeyOrder, KeyText};

use crate::decimal::{Decimal, EIGHT, LONG_ROOM, ROOM, SIXTEEN};
use crate::decimal::{eight_characters, is_long, write_long};
use crate::error::WorkloadError;
use crate::lines::Lines;

const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// YCSB's hash of an ordinal (`site.ycsb.Utils.fnvhash64`): FNV-1a over its eight octets, lowest
/// first, then Java's absolute value, which leaves `i64::MIN` negative.
#[inline]
pub(crate) const fn ycsb_hash(ordinal: u64) -> i64 {
    // An octet of 0 only multiplies, so the upper half of a small ordinal is one multiplication.
    const PRIME_TO_THE_4TH: u64 = FNV_PRIME.wrapping_pow(4);
    let low = fnv_of_four_octets(FNV_BASIS, ordinal as u32);
    let high = (ordinal >> 32) as u32;
    let hash =
        if high == 0 { low.wrapping_mul(PRIME_TO_THE_4TH) } else { fnv_of_four_octets(low, high) };
    hash.cast_signed().wrapping_abs()
}

#[inline]
const fn fnv_of_four_octets(hash: u64, octets: u32) -> u64 {
    let hash = (hash ^ (octets & 0xFF) as u64).wrapping_mul(FNV_PRIME);
    let hash = (hash ^ ((octets >> 8) & 0xFF) as u64).wrapping_mul(FNV_PRIME);
    let hash = (hash ^ ((octets >> 16) & 0xFF) as u64).wrapping_mul(FNV_PRIME);
    (hash ^ (octets >> 24) as u64).wrapping_mul(FNV_PRIME)
}

/// Bytes of a key that are copied at once; the rare longer keys are assembled from parts.
const BLANK: usize = 48;

/// How key texts of a dataset are written.
#[derive(Clone, Debug)]
pub(crate) struct KeyWriter {
    prefix: Vec<u8>,
    /// The prefix, filled up with zeros.
    blank: [u8; BLANK],
    zero_padding: usize,
    /// Length of the keys of numbers below 10^8, if padding makes them equally long and they fit
    /// into the blank.
    padded: Option<usize>,
    /// Whether keys are hashed, and those of [`write_long`] need no padding and fit into the blank.
    is_short: bool,
    order: KeyOrder,
    /// The lines that are keys of [`KeyOrder::Lines`].
    lines: Option<Arc<Lines>>,
}

impl KeyWriter {
    /// The writer of a dataset's keys.
    pub(crate) fn of_records(text: &KeyText) -> Result<Self, WorkloadError> {
        let lines = match &text.order {
            KeyOrder::Lines(file) => Some(Lines::open(file)?),
            _ => None,
        };
        Ok(Self { lines, ..Self::new(text) })
    }

    pub(crate) fn new(text: &KeyText) -> Self {
        let prefix = text.prefix.clone().into_bytes();
        let blank = std::array::from_fn(|n| prefix.get(n).copied().unwrap_or(b'0'));
        let zero_padding = text.zero_padding as usize;
        let length = prefix.len() + zero_padding;
        let padded = (zero_padding >= EIGHT && length <= BLANK).then_some(length);
        let is_short = text.order == KeyOrder::Hashed
            && zero_padding <= SIXTEEN
            && prefix.len() + LONG_ROOM <= BLANK;
        let order = text.order.clone();
        Self { prefix, blank, zero_padding, padded, is_short, order, lines: None }
    }

    /// Appends the text of an ordinal.
    #[inline(always)]
    pub(crate) fn append(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        if self.is_short
            && let hash = ycsb_hash(ordinal).cast_unsigned()
            && is_long(hash)
        {
            return self.append_short(hash, bytes);
        }
        self.append_seldom(ordinal, bytes);
    }

    /// Appends a key of a number with more than sixteen digits.
    #[inline(always)]
    fn append_short(&self, number: u64, bytes: &mut Vec<u8>) {
        let digits = bytes.len() + self.prefix.len();
        bytes.extend_from_slice(&self.blank);
        let room = bytes.get_mut(digits..).and_then(<[u8]>::first_chunk_mut);
        let room = room.expect("the blank has room for a short key");
        let end = digits + write_long(number, room);
        bytes.truncate(end);
    }

    #[inline(never)]
    fn append_seldom(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        if self.order == KeyOrder::Ordered
            && let (Some(length), Some(digits)) = (self.padded, eight_characters(ordinal))
        {
            let end = bytes.len() + length;
            bytes.extend_from_slice(&self.blank);
            bytes[end - EIGHT..end].copy_from_slice(&digits);
            return bytes.truncate(end);
        }
        if let Some(lines) = &self.lines {
            return bytes.extend_from_slice(lines.line(ordinal));
        }
        if self.order == KeyOrder::Sized {
            return append_sized(ordinal, bytes);
        }
        self.append_any(ordinal, bytes);
    }

    fn append_any(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        let number = self.number(ordinal);
        let zeros = self.zero_padding.saturating_sub(number.len());
        let start = bytes.len();
        let digits = start + self.prefix.len() + zeros;
        bytes.extend_from_slice(&self.blank);
        if let Some(room) = bytes.get_mut(digits..).and_then(<[u8]>::first_chunk_mut) {
            let length = number.write_to(room);
            bytes.truncate(digits + length);
        } else {
            bytes.truncate(start);
            self.append_long(number.written(), digits, bytes);
        }
    }

    /// Appends a key that is longer than the blank.
    #[cold]
    fn append_long(&self, number: ([u8; ROOM], usize), digits: usize, bytes: &mut Vec<u8>) {
        let (text, length) = number;
        bytes.extend_from_slice(&self.prefix);
        bytes.resize(digits, b'0');
        bytes.extend_from_slice(&text[..length]);
    }

    #[inline(always)]
    fn number(&self, ordinal: u64) -> Decimal {
        let (negative, magnitude) = match self.order {
            KeyOrder::Hashed => {
                let hash = ycsb_hash(ordinal);
                (hash < 0, hash.unsigned_abs())
            }
            KeyOrder::Ordered | KeyOrder::Sized | KeyOrder::Lines(_) => (false, ordinal),
        };
        Decimal::of(negative, magnitude)
    }
}

/// Sixty-four characters in byte order, for six bits each.
const SIGNS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/// Characters for 56 bits.
const SIGNS_OF_A_KEY: usize = 10;

/// Appends a key of at least ten bytes. Keys have the order of their ordinals.
#[inline]
fn append_sized(ordinal: u64, bytes: &mut Vec<u8>) {
    let mut text = [b'.'; BLANK];
    let mut rest = ordinal >> 8;
    for sign in text[..SIGNS_OF_A_KEY].iter_mut().rev() {
        *sign = SIGNS[(rest & 63) as usize];
        rest >>= 6;
    }
    let length = ((ordinal & 0xFF) as usize).max(SIGNS_OF_A_KEY);
    let end = bytes.len() + length;
    bytes.extend_from_slice(&text);
    bytes.resize(end, b'.');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sized_keys_have_their_length_and_the_order_of_their_ordinals() {
        let text = KeyText { prefix: "user".into(), zero_padding: 9, order: KeyOrder::Sized };
        let writer = KeyWriter::new(&text);
        let key = |hash: u64, size: u64| {
            let mut key = Vec::new();
            key.clear();
            writer.append(hash << 8 | size, &mut key);
            key
        };
        assert_eq!(key(0, 10), b"----------");
        assert_eq!(key(1, 12), b"---------0..");
        assert_eq!(key((1 << 56) - 1, 3).len(), 10);
        let hashes = (0..56).flat_map(|bit| [(1 << bit) - 1, 1 << bit]);
        let keys: Vec<_> = hashes.map(|hash| key(hash, 30)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(keys.iter().all(|key| key.len() == 30));
    }

    #[test]
    fn the_hash_is_fnv_1a_over_eight_octets_made_positive() {
        let edges = [0, 1, 255, 256, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX];
        for ordinal in (0..10_000).chain(edges) {
            let octets = ordinal.to_le_bytes();
            let slow = octets.iter().fold(14_695_981_039_346_656_037_u64, |hash, octet| {
                (hash ^ u64::from(*octet)).wrapping_mul((1 << 40) + 0x1B3)
            });
            assert_eq!(ycsb_hash(ordinal), i64::from_ne_bytes(slow.to_ne_bytes()).wrapping_abs());
        }
    }

    #[test]
    fn a_key_is_prefix_zeros_and_number_whatever_their_lengths() {
        let paddings = |prefix| [1, 7, 8, 12, 30].map(|padding| (prefix, padding));
        for (prefix, zero_padding) in (0..60).flat_map(paddings) {
            let prefix = "p".repeat(prefix);
            let text = KeyText { prefix: prefix.clone(), zero_padding, order: KeyOrder::Ordered };
            let writer = KeyWriter::new(&text);
            for ordinal in [0, 7, 12_345_678, 99_999_999, 100_000_000, 123_456_789, u64::MAX] {
                let mut key = b"before".to_vec();
                writer.append(ordinal, &mut key);
                let width = zero_padding as usize;
                assert_eq!(key, format!("before{prefix}{ordinal:0width$}").into_bytes());
            }
        }
    }
}
