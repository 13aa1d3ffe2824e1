//! A drawn argument as text, the only form in which the protocol carries values.
//!
//! Whole numbers and timestamps are written in decimal, fractions with the fewest digits that read
//! back as the same number, booleans as 1 and 0, UUIDs in their five groups. The elements of a
//! collection are words of their own.

use std::io::Write;

use kvmark_driver::Elements;
use kvmark_plan::ValueType;

use crate::resp::{append_number, put_joined, put_number_part, put_part};

/// Adds an argument as a part of a command, or a collection as several.
#[inline]
pub(crate) fn put_argument(output: &mut Vec<u8>, kind: ValueType, bytes: &[u8]) {
    match kind {
        ValueType::Text | ValueType::Bytes => put_part(output, bytes),
        other => put_other(output, other, bytes),
    }
}

fn put_other(output: &mut Vec<u8>, kind: ValueType, bytes: &[u8]) {
    match kind {
        ValueType::Integer | ValueType::Timestamp => put_number_part(output, integer(bytes)),
        ValueType::List | ValueType::Tuple | ValueType::Map => {
            Elements::of(bytes).for_each(|(kind, bytes)| put_argument(output, kind, bytes));
        }
        _ => put_joined(output, |output| append_text(output, kind, bytes)),
    }
}

/// Appends the text of an argument that isn't a collection.
pub(crate) fn append_text(output: &mut Vec<u8>, kind: ValueType, bytes: &[u8]) {
    match kind {
        ValueType::Text | ValueType::Bytes => output.extend_from_slice(bytes),
        ValueType::Integer | ValueType::Timestamp => append_number(output, integer(bytes)),
        ValueType::Fraction => {
            let number = f64::from_bits(integer(bytes).cast_unsigned());
            write!(output, "{number}").expect("memory takes whatever is written");
        }
        ValueType::Boolean => output.push(if bytes == [0] { b'0' } else { b'1' }),
        ValueType::Uuid => append_uuid(output, bytes),
        ValueType::List | ValueType::Tuple | ValueType::Map => {}
    }
}

/// Parts of a command that an argument makes.
pub(crate) fn leaves(kind: ValueType, bytes: &[u8]) -> usize {
    match kind {
        ValueType::List | ValueType::Tuple | ValueType::Map => {
            Elements::of(bytes).map(|(kind, bytes)| leaves(kind, bytes)).sum()
        }
        _ => 1,
    }
}

fn integer(bytes: &[u8]) -> i64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: ValueType, bytes: &[u8]) -> String {
        let mut output = Vec::new();
        append_text(&mut output, kind, bytes);
        String::from_utf8(output).unwrap()
    }

    fn collection(elements: &[(ValueType, &[u8])]) -> Vec<u8> {
        let mut bytes = (elements.len() as u64).to_le_bytes().to_vec();
        for (kind, element) in elements {
            bytes.push(*kind as u8);
            bytes.extend((element.len() as u64).to_le_bytes());
            bytes.extend(*element);
        }
        bytes
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
    fn the_elements_of_a_collection_are_parts_of_their_own() {
        let seven = 7_i64.to_le_bytes();
        let pair = collection(&[(ValueType::Text, b"a"), (ValueType::Integer, &seven)]);
        let nested = collection(&[(ValueType::Tuple, &pair), (ValueType::Bytes, b"")]);
        let mut output = Vec::new();
        put_argument(&mut output, ValueType::List, &nested);
        assert_eq!(output, b"$1\r\na\r\n$1\r\n7\r\n$0\r\n\r\n");
        assert_eq!(leaves(ValueType::List, &nested), 3);
        assert_eq!(leaves(ValueType::Map, &collection(&[])), 0);
    }
}
