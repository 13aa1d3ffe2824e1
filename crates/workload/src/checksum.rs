//! Values with a prefix and a checksum, as yb-sample-apps makes them.

use std::ops::Range;

use kvmark_plan::Random;

use crate::value::{append_bytes, append_noise};

/// The first byte of a value with a checksum.
const ASCII: u8 = b'A';
const BINARY: u8 = b'B';
/// Longer values contain the prefix.
const UNPREFIXED: usize = 16;

/// The parts of a value with a checksum (`AppBase.getRandomValue` of yb-sample-apps).
struct Parts {
    /// Bytes before the checksum.
    content: usize,
    checksum: usize,
    is_prefixed: bool,
}

impl Parts {
    fn of(length: usize, ascii: bool) -> Self {
        let checksum = if ascii { 8 } else { 4 };
        let checksum = if length > checksum + 1 { checksum } else { 0 };
        Self { content: length - checksum, checksum, is_prefixed: length > UNPREFIXED }
    }
}

/// Appends a value. `prefix` is a place in `bytes`.
pub(crate) fn append(
    random: &mut Random,
    length: usize,
    ascii: bool,
    prefix: Range<usize>,
    bytes: &mut Vec<u8>,
) {
    let parts = Parts::of(length, ascii);
    let start = bytes.len();
    bytes.push(if ascii { ASCII } else { BINARY });
    if parts.is_prefixed {
        let length = prefix.len().min(parts.content - 1);
        bytes.extend_from_within(prefix.start..prefix.start + length);
    }
    let noise = start + parts.content - bytes.len();
    if ascii {
        append_noise(random, noise, bytes);
    } else {
        append_bytes(random, noise, bytes);
    }
    if parts.checksum > 0 {
        let sum = adler_32(&bytes[start..]);
        append_checksum(sum, ascii, bytes);
    }
}

fn append_checksum(sum: u32, ascii: bool, bytes: &mut Vec<u8>) {
    if !ascii {
        return bytes.extend_from_slice(&sum.to_le_bytes());
    }
    let digit = |shift: u32| b"0123456789abcdef"[(sum >> shift & 0xF) as usize];
    bytes.extend((0..8).rev().map(|place| digit(4 * place)));
}

/// Whether a value begins with the prefix and ends with its checksum, if it is long enough.
pub(crate) fn is_intact(prefix: &[u8], found: &[u8]) -> bool {
    let Some(marker) = found.first() else { return false };
    let parts = Parts::of(found.len(), *marker == ASCII);
    let (content, checksum) = found.split_at(parts.content);
    let prefix = &prefix[..prefix.len().min(parts.content - 1)];
    if parts.is_prefixed && !content[1..].starts_with(prefix) {
        return false;
    }
    match (parts.checksum, <[u8; 4]>::try_from(checksum)) {
        (0, _) => true,
        (_, Ok(sum)) => u32::from_le_bytes(sum) == adler_32(content),
        _ => {
            let text = std::str::from_utf8(checksum).ok();
            text.and_then(|text| u32::from_str_radix(text, 16).ok()) == Some(adler_32(content))
        }
    }
}

/// Adler-32 (RFC 1950).
fn adler_32(bytes: &[u8]) -> u32 {
    /// The largest prime below 2^16.
    const MODULUS: u32 = 65_521;
    /// Number of bytes that can be added before 32 bits overflow.
    const CHUNK: usize = 5_552;
    let (mut low, mut high) = (1, 0);
    for chunk in bytes.chunks(CHUNK) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use kvmark_plan::Seed;

    use super::*;

    #[test]
    fn the_checksum_is_adler_32_of_rfc_1950() {
        assert_eq!(adler_32(b""), 1);
        assert_eq!(adler_32(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(adler_32(&[0xFF; 100_000]), {
            let sum = |weight: fn(u64) -> u64| (0..100_000).map(weight).sum::<u64>();
            let low = (1 + sum(|_| 255)) % 65_521;
            let high = (100_000 + sum(|n| 255 * (100_000 - n))) % 65_521;
            (high << 16 | low) as u32
        });
    }

    fn value(length: usize, ascii: bool) -> Vec<u8> {
        let mut bytes = b"val:42".to_vec();
        append(&mut Seed::derive(1, &[]).random(7), length, ascii, 0..6, &mut bytes);
        bytes.split_off(6)
    }

    #[test]
    fn a_value_has_its_length_marker_prefix_and_checksum() {
        for ascii in [false, true] {
            for length in 1..200 {
                let value = value(length, ascii);
                assert_eq!(value.len(), length);
                assert_eq!(value[0], if ascii { b'A' } else { b'B' });
                assert!(is_intact(b"val:42", &value), "{value:?}");
                let begins = value[1..].starts_with(b"val:42");
                assert!(begins || length <= 16, "{value:?}");
            }
        }
    }

    #[test]
    fn another_prefix_and_a_changed_byte_are_detected() {
        for ascii in [false, true] {
            let value = value(100, ascii);
            assert!(!is_intact(b"val:43", &value));
            for place in 1..100 {
                let mut changed = value.clone();
                changed[place] ^= 1;
                assert!(!is_intact(b"val:42", &changed), "byte {place}");
            }
        }
        assert!(!is_intact(b"val:42", b""));
    }
}
