//! Bytes of values.

use kvmark_plan::Random;
use std::ops::Range;

/// The values of one operation, by field. The memory is reused.
#[derive(Clone, Debug, Default)]
pub struct ValueBuffer {
    /// Bytes of the values, one after the other.
    pub bytes: Vec<u8>,
    /// Index of the field and place of its value in `bytes`.
    pub places: Vec<(u32, Range<usize>)>,
}

impl ValueBuffer {
    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Adds the value that `append` writes after the bytes.
    #[inline]
    pub(crate) fn push(&mut self, field: u32, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        append(&mut self.bytes);
        self.places.push((field, start..self.bytes.len()));
    }
}

/// Bytes of noise generated at a time: enough for the compiler to use vector instructions.
const BLOCK: usize = 64;

/// Appends printable ASCII noise, 0x20 to 0x7E.
#[inline]
pub(crate) fn append_noise(random: &mut Random, length: usize, bytes: &mut Vec<u8>) {
    append_blocks(|| octets(random).map(printable), length, bytes);
}

/// Appends random bytes of any value, a word at a time.
pub(crate) fn append_bytes(random: &mut Random, length: usize, bytes: &mut Vec<u8>) {
    let end = bytes.len() + length;
    while bytes.len() < end {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(end);
}

/// Appends random bytes of any value as fast as noise.
#[inline]
pub(crate) fn append_octets(random: &mut Random, length: usize, bytes: &mut Vec<u8>) {
    append_blocks(|| octets(random), length, bytes);
}

#[inline]
fn append_blocks(mut noise: impl FnMut() -> [u8; BLOCK], length: usize, bytes: &mut Vec<u8>) {
    bytes.reserve(length);
    let mut missing = length;
    while missing >= BLOCK {
        bytes.extend_from_slice(&noise());
        missing -= BLOCK;
    }
    if missing > 0 {
        bytes.extend_from_slice(&noise()[..missing]);
    }
}

#[inline]
fn octets(random: &mut Random) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    for word in block.chunks_exact_mut(size_of::<u64>()) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
    block
}

/// Maps an octet to one of the 95 printable characters, as evenly as 256 octets allow.
#[inline]
const fn printable(octet: u8) -> u8 {
    b' ' + (octet as u16 * 95 / 256) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_become_every_printable_character_and_no_other() {
        let mut characters: Vec<u8> = (0..=255).map(printable).collect();
        characters.dedup();
        assert!(characters.into_iter().eq(0x20..=0x7E));
    }
}
