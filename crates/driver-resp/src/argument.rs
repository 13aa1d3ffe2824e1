//! Arguments as parts of a command: a scalar is one part, a collection one part per element.

use kvmark_driver::Elements;
use kvmark_driver_server::text::{append_text, integer};
use kvmark_plan::ValueType;

use kvmark_wire::resp::{put_joined, put_number_part, put_part};

/// Adds an argument to a command, a collection as several parts.
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

/// The number of parts of an argument.
pub(crate) fn leaves(kind: ValueType, bytes: &[u8]) -> usize {
    match kind {
        ValueType::List | ValueType::Tuple | ValueType::Map => {
            Elements::of(bytes).map(|(kind, bytes)| leaves(kind, bytes)).sum()
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn each_element_of_a_collection_is_a_part() {
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
