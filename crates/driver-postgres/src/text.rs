//! Prepared texts, and the requests that execute them.
//!
//! Arguments and results have PostgreSQL's text format, except bytes and timestamps, which are
//! binary. Both formats of a text are its bytes.

use kvmark_driver::Elements;
use kvmark_driver_server::text::{append_text, integer};
use kvmark_plan::ValueType;

use crate::connect::name_of;
use crate::failure::Failure;
use crate::message::{EXECUTE_AND_SYNC, Messages, Reader};

/// The identifiers of types whose format is binary.
const BYTEA: u32 = 17;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;

/// 2000-01-01, with which PostgreSQL's timestamps begin.
const EPOCH_MS: i64 = 946_684_800_000;

/// A prepared text.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) sql: String,
    /// The types of its parameters.
    pub(crate) parameters: Vec<u32>,
    /// The request up to the values, and after them.
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Text {
    /// The text of this number, by its description.
    pub(crate) fn new(number: usize, sql: String, description: &[u8]) -> Result<Self, Failure> {
        let (mut parameters, mut columns) = (Vec::new(), Vec::new());
        for (tag, body) in Messages(description) {
            let mut reader = Reader(body);
            match tag {
                b't' => {
                    let count = reader.count()?;
                    parameters = (0..count).map(|_| reader.number()).collect::<Result<_, _>>()?;
                }
                b'T' => columns = reader.columns()?.into_iter().map(|(_, kind)| kind).collect(),
                _ => {}
            }
        }
        let mut head = b"B\0\0\0\0\0".to_vec();
        head.extend_from_slice(name_of(number).as_bytes());
        head.push(0);
        append_formats(&mut head, &parameters);
        head.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        let mut tail = Vec::new();
        append_formats(&mut tail, &columns);
        Ok(Self { sql, parameters, head, tail })
    }

    /// Encodes an execution, whose values `put_values` appends.
    #[inline]
    pub(crate) fn put(&self, output: &mut Vec<u8>, put_values: impl FnOnce(&mut Vec<u8>)) {
        let start = output.len() + 1;
        output.extend_from_slice(&self.head);
        put_values(output);
        output.extend_from_slice(&self.tail);
        let length = (output.len() - start) as u32;
        output[start..start + 4].copy_from_slice(&length.to_be_bytes());
        output.extend_from_slice(EXECUTE_AND_SYNC);
    }
}

/// Appends the number of types, and for each 1 if its format is binary, else 0.
fn append_formats(output: &mut Vec<u8>, types: &[u32]) {
    output.extend_from_slice(&(types.len() as u16).to_be_bytes());
    let is_binary = |kind: &u32| matches!(*kind, BYTEA | TIMESTAMP | TIMESTAMPTZ);
    types.iter().for_each(|kind| output.extend_from_slice(&[0, u8::from(is_binary(kind))]));
}

/// Appends bytes with their length.
#[inline]
pub(crate) fn put_value(output: &mut Vec<u8>, value: &[u8]) {
    output.extend_from_slice(&(value.len() as u32).to_be_bytes());
    output.extend_from_slice(value);
}

/// Appends an argument with its length, for a parameter of this type.
#[inline]
pub(crate) fn put_argument(output: &mut Vec<u8>, parameter: u32, kind: ValueType, bytes: &[u8]) {
    use ValueType::{Integer, List, Null, Timestamp};
    let start = output.len();
    output.extend_from_slice(&[0xff; 4]);
    match (kind, parameter) {
        (Null, _) => return,
        (Integer | Timestamp, TIMESTAMP | TIMESTAMPTZ) => {
            let since_us = integer(bytes).saturating_sub(EPOCH_MS).saturating_mul(1000);
            output.extend_from_slice(&since_us.to_be_bytes());
        }
        (List, _) => append_list(output, bytes),
        _ => append_text(output, kind, bytes),
    }
    let length = (output.len() - start - 4) as u32;
    output[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends the text of an array.
fn append_list(output: &mut Vec<u8>, bytes: &[u8]) {
    output.push(b'{');
    for (place, (kind, element)) in Elements::of(bytes).enumerate() {
        if place > 0 {
            output.push(b',');
        }
        match kind {
            ValueType::List => append_list(output, element),
            ValueType::Text | ValueType::Bytes => {
                output.push(b'"');
                for byte in element {
                    if matches!(byte, b'"' | b'\\') {
                        output.push(b'\\');
                    }
                    output.push(*byte);
                }
                output.push(b'"');
            }
            ValueType::Null => output.extend_from_slice(b"NULL"),
            _ => append_text(output, kind, element),
        }
    }
    output.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(parameter: u32, kind: ValueType, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        put_argument(&mut output, parameter, kind, bytes);
        output
    }

    #[test]
    fn an_argument_has_the_format_of_its_parameter() {
        let ms = (EPOCH_MS + 2).to_le_bytes();
        let timestamp = [&[0, 0, 0, 8][..], &2000_i64.to_be_bytes()].concat();
        assert_eq!(argument(TIMESTAMPTZ, ValueType::Timestamp, &ms), timestamp);
        assert_eq!(argument(20, ValueType::Integer, &5_i64.to_le_bytes()), b"\0\0\0\x015");
        assert_eq!(argument(BYTEA, ValueType::Bytes, b"\0\xff"), b"\0\0\0\x02\0\xff");
        assert_eq!(argument(25, ValueType::Null, b""), [0xff; 4]);
        let mut list = 2_u64.to_le_bytes().to_vec();
        for element in [&b"a\"\\"[..], b""] {
            list.push(ValueType::Text as u8);
            list.extend((element.len() as u64).to_le_bytes());
            list.extend(element);
        }
        assert_eq!(argument(1009, ValueType::List, &list), b"\0\0\0\x0c{\"a\\\"\\\\\",\"\"}");
    }
}
