//! Ordinal to key text, as YCSB's `CoreWorkload.buildKeyName` makes it.

use kvmark_plan::{KeyOrder, KeyText};

use crate::decimal::Decimal;

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

/// So much of a prefix is copied as one word; longer ones, which are seldom, need a call.
const WORD: usize = 8;

/// How key texts of a dataset are written.
#[derive(Clone, Debug)]
pub(crate) struct KeyWriter {
    prefix: Vec<u8>,
    /// The prefix's first bytes, and zeros where it is shorter.
    word: [u8; WORD],
    zero_padding: usize,
    order: KeyOrder,
}

impl KeyWriter {
    pub(crate) fn new(text: &KeyText) -> Self {
        let prefix = text.prefix.clone().into_bytes();
        let word = std::array::from_fn(|n| prefix.get(n).copied().unwrap_or(0));
        Self { prefix, word, zero_padding: text.zero_padding as usize, order: text.order }
    }

    /// Appends the text of an ordinal.
    pub(crate) fn append(&self, ordinal: u64, bytes: &mut Vec<u8>) {
        let number = self.number(ordinal);
        bytes.extend_from_slice(&self.prefix);
        self.pad(number.len(), bytes);
        number.append_to(bytes);
    }

    /// Replaces `key` by the text of an ordinal.
    #[inline]
    pub(crate) fn write(&self, ordinal: u64, key: &mut Vec<u8>) {
        let number = self.number(ordinal);
        key.clear();
        key.extend_from_slice(&self.word);
        key.truncate(self.prefix.len());
        if let Some(rest) = self.prefix.get(WORD..).filter(|rest| !rest.is_empty()) {
            key.extend_from_slice(rest);
        }
        self.pad(number.len(), key);
        number.append_to(key);
    }

    #[inline(always)]
    fn number(&self, ordinal: u64) -> Decimal {
        let (negative, magnitude) = match self.order {
            KeyOrder::Hashed => {
                let hash = ycsb_hash(ordinal);
                (hash < 0, hash.unsigned_abs())
            }
            KeyOrder::Ordered => (false, ordinal),
        };
        Decimal::of(negative, magnitude)
    }

    /// Appends the zeros in front of a number of so many characters.
    #[inline(always)]
    fn pad(&self, characters: usize, bytes: &mut Vec<u8>) {
        if let Some(zeros) = self.zero_padding.checked_sub(characters) {
            bytes.resize(bytes.len() + zeros, b'0');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
