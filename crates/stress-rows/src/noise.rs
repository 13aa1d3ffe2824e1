//! Bytes of values: a xorshift generator that periodically takes a new seed from Java's.

use crate::java::JavaRandom;

const MULTIPLIER: i64 = 2_685_821_657_736_338_717;
/// Each call of this number takes a new seed first.
const ROLL: u32 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Noise {
    word: i64,
    calls: u32,
}

impl Noise {
    pub(crate) const fn new(seed: i64) -> Self {
        Self { word: JavaRandom::new(seed).long(), calls: 0 }
    }

    /// 64 bits. Shifts to the right keep the sign, unlike xorshift64*'s.
    #[inline]
    const fn next(&mut self) -> i64 {
        self.calls += 1;
        if self.calls == ROLL {
            *self = Self::new(self.word);
        }
        let word = self.word ^ (self.word >> 12);
        let word = word ^ (word << 25);
        self.word = word ^ (word >> 27);
        self.word.wrapping_mul(MULTIPLIER)
    }

    /// Appends `length` bytes.
    #[inline]
    pub(crate) fn append(&mut self, length: usize, bytes: &mut Vec<u8>) {
        let end = bytes.len() + length;
        while bytes.len() < end {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(end);
    }
}
