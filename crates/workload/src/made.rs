//! Arguments that are made of numbers, of literals and of a statement's earlier arguments.

use kvmark_plan::{Basis, FormatPart, Generator, ValueType};

use crate::arguments::{ArgumentAt, Earlier, Element};
use crate::decimal::Decimal;
use crate::error::WorkloadError;
use crate::random::Seed;
use crate::size::Sizes;
use crate::value::append_noise;

/// A [`Generator`] that looks at other arguments or at where it stands.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    Computed { of: Basis, divisor: u64, modulus: Option<u64>, factor: i64, start: i64, step: i64 },
    Split { rest: bool, seed: Seed },
    Format(Vec<Piece>),
    Checked { prefix: ArgumentAt, length: Sizes, ascii: bool, seed: Seed },
}

/// A literal, and the argument behind it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    literal: Vec<u8>,
    argument: Option<ArgumentAt>,
    zero_padding: usize,
}

impl Made {
    /// The generator if it is of this kind. `seed` is its own, `shared` one for the statement.
    pub(crate) fn new(
        generator: &Generator,
        slots: &[ArgumentAt],
        (seed, shared): (Seed, Seed),
        place: &str,
    ) -> Result<Option<Self>, WorkloadError> {
        let piece = |part: &FormatPart| Piece {
            literal: part.literal.clone().into_bytes(),
            argument: part.argument.map(|index| slots[index as usize]),
            zero_padding: part.zero_padding as usize,
        };
        Ok(Some(match generator {
            Generator::Computed { of, divisor, modulus, factor, start, step } => Self::Computed {
                of: *of,
                divisor: *divisor,
                modulus: *modulus,
                factor: *factor,
                start: *start,
                step: *step,
            },
            Generator::Split { rest } => Self::Split { rest: *rest, seed: shared },
            Generator::Format { parts } => Self::Format(parts.iter().map(piece).collect()),
            Generator::Checked { prefix, length, ascii } => Self::Checked {
                prefix: slots[*prefix as usize],
                length: Sizes::new(length, &format!("{place}.length"))?,
                ascii: *ascii,
                seed,
            },
            _ => return Ok(None),
        }))
    }

    /// Appends the bytes of an element's value behind those that they are made of.
    pub(crate) fn append(
        &self,
        element: Element,
        earlier: Earlier<'_>,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        match self {
            Self::Computed { of, divisor, modulus, factor, start, step } => {
                let basis = match of {
                    Basis::Ordinal => element.ordinal,
                    Basis::Operation => element.number,
                    Basis::Place => element.place,
                };
                let quotient = basis / divisor;
                let rest = modulus.map_or(quotient, |modulus| quotient % modulus).cast_signed();
                let steps = step.wrapping_mul(element.place.cast_signed());
                let value = start.wrapping_add(rest.wrapping_mul(*factor)).wrapping_add(steps);
                bytes.extend_from_slice(&value.to_le_bytes());
                ValueType::Integer
            }
            Self::Split { rest, seed } => {
                let mut random = seed.random_of_part(element.number, element.place);
                let first = random.within(0, element.ordinal);
                let value = if *rest { element.ordinal - first } else { first };
                bytes.extend_from_slice(&value.to_le_bytes());
                ValueType::Integer
            }
            Self::Format(pieces) => {
                pieces.iter().for_each(|piece| piece.append(earlier, bytes));
                ValueType::Text
            }
            Self::Checked { prefix, length, ascii, seed } => {
                let mut random = seed.random_of_part(element.number, element.place);
                let parts = Parts::of(length.draw(&mut random) as usize, *ascii);
                let start = bytes.len();
                bytes.push(if *ascii { ASCII } else { BINARY });
                if parts.is_prefixed {
                    let prefix = earlier.of(*prefix).1.clone();
                    let length = prefix.len().min(parts.content - 1);
                    bytes.extend_from_within(prefix.start..prefix.start + length);
                }
                let noise = start + parts.content - bytes.len();
                if *ascii {
                    append_noise(&mut random, noise, bytes);
                } else {
                    let end = bytes.len() + noise;
                    while bytes.len() < end {
                        bytes.extend_from_slice(&random.next().to_le_bytes());
                    }
                    bytes.truncate(end);
                }
                if parts.checksum > 0 {
                    let sum = adler_32(&bytes[start..]);
                    append_checksum(sum, *ascii, bytes);
                }
                if *ascii { ValueType::Text } else { ValueType::Bytes }
            }
        }
    }

    /// Whether a value found is the one that was bound, or carries the right prefix and checksum.
    pub(crate) fn matches(
        &self,
        earlier: Earlier<'_>,
        bound: &[u8],
        bytes: &[u8],
        found: &[u8],
    ) -> bool {
        match self {
            Self::Computed { .. } | Self::Split { .. } => {
                let bound = bound.try_into().map(i64::from_le_bytes).ok();
                let found = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
                bound.is_some() && bound == found
            }
            Self::Format(_) => bound == found,
            Self::Checked { prefix, .. } => is_intact(&bytes[earlier.of(*prefix).1.clone()], found),
        }
    }
}

impl Piece {
    fn append(&self, earlier: Earlier<'_>, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.literal);
        let Some(argument) = self.argument else { return };
        let (kind, place) = earlier.of(argument);
        match (kind, bytes[place.clone()].first_chunk()) {
            (ValueType::Integer | ValueType::Timestamp, Some(value)) => {
                let value = i64::from_le_bytes(*value);
                let decimal = Decimal::of(value < 0, value.unsigned_abs());
                let zeros = self.zero_padding.saturating_sub(decimal.len());
                bytes.resize(bytes.len() + zeros, b'0');
                let (text, length) = decimal.written();
                bytes.extend_from_slice(&text[..length]);
            }
            _ => bytes.extend_from_within(place.clone()),
        }
    }
}

/// The first byte of a value with a checksum.
const ASCII: u8 = b'A';
const BINARY: u8 = b'B';
/// Longer values carry the prefix.
const UNPREFIXED: usize = 16;

/// How a value with a checksum is divided (`AppBase.getRandomValue` of yb-sample-apps).
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

fn append_checksum(sum: u32, ascii: bool, bytes: &mut Vec<u8>) {
    if !ascii {
        return bytes.extend_from_slice(&sum.to_le_bytes());
    }
    let digit = |shift: u32| b"0123456789abcdef"[(sum >> shift & 0xF) as usize];
    bytes.extend((0..8).rev().map(|place| digit(4 * place)));
}

/// Whether a value begins with the prefix and ends with its checksum, as far as it has them.
fn is_intact(prefix: &[u8], found: &[u8]) -> bool {
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
    /// So many bytes can be added before 32 bits overflow.
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
    use kvmark_plan::Each;

    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_document() {
        assert_eq!(adler_32(b""), 1);
        assert_eq!(adler_32(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(adler_32(&[0xFF; 100_000]), {
            let sum = |weight: fn(u64) -> u64| (0..100_000).map(weight).sum::<u64>();
            let low = (1 + sum(|_| 255)) % 65_521;
            let high = (100_000 + sum(|n| 255 * (100_000 - n))) % 65_521;
            (high << 16 | low) as u32
        });
    }

    fn value(length: u64, ascii: bool) -> Vec<u8> {
        let law = kvmark_plan::SizeLaw::Constant { size: length };
        let made = Made::Checked {
            prefix: (Each::Command, 0),
            length: Sizes::new(&law, "here").unwrap(),
            ascii,
            seed: Seed::derive(1, &[]),
        };
        let mut bytes = b"val:42".to_vec();
        let earlier = Earlier { places: &[(ValueType::Text, 0..6)], starts: [0; 3] };
        let element =
            Element { number: 7, place: 0, position: 7, ordinal: 42, ttl_ms: 0, scan_length: 0 };
        made.append(element, earlier, &mut bytes);
        bytes.split_off(6)
    }

    #[test]
    fn a_value_has_its_length_marker_prefix_and_checksum() {
        for ascii in [false, true] {
            for length in 1..200 {
                let value = value(length, ascii);
                assert_eq!(value.len() as u64, length);
                assert_eq!(value[0], if ascii { b'A' } else { b'B' });
                assert!(is_intact(b"val:42", &value), "{value:?}");
                let begins = value[1..].starts_with(b"val:42");
                assert!(begins || length <= 16, "{value:?}");
            }
        }
    }

    #[test]
    fn another_prefix_and_a_changed_byte_are_found() {
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
