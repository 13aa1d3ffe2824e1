//! Reads a drawn collection.

use kvmark_plan::ValueType;

/// Iterates over type and bytes of a collection's elements, in the format of [`ValueType`]. Panics
/// on another format.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements in a collection's bytes.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        let (count, rest) = bytes.split_first_chunk().expect("a collection begins with its length");
        Self { left: u64::from_le_bytes(*count) as usize, rest }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (ValueType, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (kind, rest) = self.rest.split_first().expect("an element begins with its type");
        let (length, rest) = rest.split_first_chunk().expect("an element's length follows");
        let (bytes, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
        self.rest = rest;
        Some((ValueType::ALL[usize::from(*kind)], bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

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
    fn elements_come_in_their_order_with_their_kind() {
        let pair: [(ValueType, &[u8]); 2] = [(ValueType::Text, b"a"), (ValueType::Bytes, b"")];
        let bytes = collection(&pair);
        let elements = Elements::of(&bytes);
        assert_eq!(elements.len(), 2);
        assert_eq!(elements.collect::<Vec<_>>(), pair);
        let nested = collection(&[(ValueType::Map, &bytes)]);
        assert_eq!(Elements::of(&nested).next(), Some((ValueType::Map, &bytes[..])));
        assert_eq!(Elements::of(&collection(&[])).next(), None);
    }
}
