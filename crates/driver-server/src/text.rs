//! Arguments as text, for protocols whose values are text.
//!
//! Integers and timestamps are written in decimal, fractions with the fewest digits that give the
//! same number, booleans as 1 and 0, UUIDs in five groups.

use std::io::Write;

use kvmark_plan::ValueType;
use kvmark_wire::number;

/// Appends the text of a scalar argument.
pub fn append_text(output: &mut Vec<u8>, kind: ValueType, bytes: &[u8]) {
    match kind {
        ValueType::Text | ValueType::Bytes => output.extend_from_slice(bytes),
        ValueType::Integer | ValueType::Timestamp => number::append(output, integer(bytes)),
        ValueType::Fraction => {
            let number = f64::from_bits(integer(bytes).cast_unsigned());
            write!(output, "{number}").expect("a write into a vector succeeds");
        }
        ValueType::Boolean => output.push(if bytes == [0] { b'0' } else { b'1' }),
        ValueType::Uuid => append_uuid(output, bytes),
        ValueType::List | ValueType::Tuple | ValueType::Map | ValueType::Null => {}
    }
}

/// The number in an argument of 8 bytes.
///
/// # Panics
/// If the length differs.
pub fn integer(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().expect("a number has 8 bytes"))
}

fn append_uuid(output: &mut Vec<u8>, bytes: &[u8]) {
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            output.push(b'-');
        }
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        output.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xF)]);
    }
}

/// Texts in one buffer, whose memory is reused.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    /// Removes all texts.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds and returns the text that `append` writes.
    #[inline]
    pub fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let start = self.bytes.len();
        append(&mut self.bytes);
        self.ends.push(self.bytes.len() as u32);
        &self.bytes[start..]
    }

    /// The number of texts.
    #[inline]
    pub fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The text of this index.
    #[inline]
    pub fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }
}

/// The index below `count` that `is_it` accepts. Fields are usually in order, so `place` is tried
/// first.
#[inline]
pub fn find_near(place: usize, count: usize, is_it: impl Fn(usize) -> bool) -> Option<u32> {
    let is_there = place < count && is_it(place);
    let index = if is_there { Some(place) } else { (0..count).find(|index| is_it(*index)) };
    index.map(|index| index as u32)
}

/// Java's `String.hashCode`, computed over UTF-16.
pub fn java_hash(key: &[u8]) -> i32 {
    let add = |hash: i32, unit: i32| hash.wrapping_mul(31).wrapping_add(unit);
    if key.is_ascii() {
        return key.iter().fold(0, |hash, byte| add(hash, i32::from(*byte)));
    }
    let text = String::from_utf8_lossy(key);
    text.encode_utf16().fold(0, |hash, unit| add(hash, i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: ValueType, bytes: &[u8]) -> String {
        let mut output = Vec::new();
        append_text(&mut output, kind, bytes);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn every_type_has_its_text() {
        let number = |number: i64| number.to_le_bytes();
        assert_eq!(text(ValueType::Text, b"a b"), "a b");
        assert_eq!(text(ValueType::Integer, &number(i64::MIN)), "-9223372036854775808");
        assert_eq!(text(ValueType::Timestamp, &number(1_700_000_000_000)), "1700000000000");
        assert_eq!(text(ValueType::Fraction, &0.1_f64.to_le_bytes()), "0.1");
        assert_eq!(text(ValueType::Boolean, &[1]) + &text(ValueType::Boolean, &[0]), "10");
        let uuid: Vec<u8> = (0..16).map(|byte| byte * 17).collect();
        assert_eq!(text(ValueType::Uuid, &uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn a_hash_equals_that_of_java() {
        // From the documentation of String.hashCode: s[0]*31^(n-1) + … + s[n-1], in 32 bits.
        assert_eq!(java_hash(b""), 0);
        assert_eq!(java_hash(b"a"), 97);
        assert_eq!(java_hash(b"hello"), 99_162_322);
        assert_eq!(java_hash(b"polygenelubricants"), i32::MIN);
        assert_eq!(java_hash("\u{e9}".as_bytes()), 0xe9);
        assert_eq!(java_hash("\u{1f600}".as_bytes()), 31 * 0xd83d + 0xde00);
    }
}
