//! A record in every embedded store, as YCSB's RocksDB binding stores it: for each field the length
//! of its name, its name, the length of its value, its value. A length is a Java int: 4 bytes,
//! big-endian, signed.

use kvmark_driver::Values;

const LENGTH_BYTES: usize = 4;

/// Why bytes and fields can't be turned into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecError {
    /// A length points past the end.
    Damaged,
    /// A name or value doesn't fit the lengths of the format.
    TooLong,
}

/// Names of a table's fields, found by name.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Names {
    pub(crate) fn name(&self, index: u32) -> &[u8] {
        self.0[index as usize].as_bytes()
    }

    /// Index of a name. A record usually has its fields in order, so `place` is tried first.
    pub(crate) fn index_of(&self, name: &[u8], place: usize) -> Option<u32> {
        let expected = self.0.get(place).is_some_and(|here| here.as_bytes() == name);
        let index = if expected {
            Some(place)
        } else {
            self.0.iter().position(|other| other.as_bytes() == name)
        };
        index.and_then(|index| u32::try_from(index).ok())
    }
}

/// Name and value of each field of a stored record; ends after the first error.
pub(crate) fn fields(record: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), CodecError>> {
    let mut rest = record;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = take(&mut rest).and_then(|name| Ok((name, take(&mut rest)?)));
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let (length, behind) = rest.split_first_chunk().ok_or(CodecError::Damaged)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (bytes, behind) = behind.split_at_checked(length).ok_or(CodecError::Damaged)?;
    *rest = behind;
    Ok(bytes)
}

/// The value of the field of this name, if the record has it. Bytes after it aren't checked.
pub(crate) fn field<'a>(record: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, CodecError> {
    for field in fields(record) {
        let (name, value) = field?;
        if name == wanted {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) -> Result<(), CodecError> {
    let length = i32::try_from(bytes.len()).map_err(|_| CodecError::TooLong)?;
    record.reserve(LENGTH_BYTES + bytes.len());
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(bytes);
    Ok(())
}

fn put_field(record: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), CodecError> {
    put(record, name)?;
    put(record, value)
}

/// Writes the values as a record into the emptied buffer.
pub(crate) fn encode(
    names: &Names,
    values: Values<'_>,
    record: &mut Vec<u8>,
) -> Result<(), CodecError> {
    record.clear();
    values.iter().try_for_each(|(field, value)| put_field(record, names.name(field), value))
}

/// Writes the stored record with the new values into the emptied buffer: fields keep their order,
/// new fields follow. Bytes after the last replaced field are copied unchanged.
pub(crate) fn merge(
    stored: &[u8],
    names: &Names,
    values: Values<'_>,
    record: &mut Vec<u8>,
) -> Result<(), CodecError> {
    record.clear();
    let (mut missing, mut copied, mut end) = (values.places.len(), 0, 0);
    for (place, field) in fields(stored).enumerate() {
        if missing == 0 {
            break;
        }
        let (name, old) = field?;
        end += LENGTH_BYTES + name.len() + LENGTH_BYTES + old.len();
        let new = names.index_of(name, place).and_then(|index| value_of(values, index, place));
        if let Some(new) = new {
            record.extend_from_slice(&stored[copied..end - old.len() - LENGTH_BYTES]);
            put(record, new)?;
            copied = end;
            missing -= 1;
        }
    }
    record.extend_from_slice(&stored[copied..]);
    if missing > 0 {
        for (index, value) in values.iter() {
            let name = names.name(index);
            if !fields(stored).flatten().any(|(other, _)| other == name) {
                put_field(record, name, value)?;
            }
        }
    }
    Ok(())
}

fn value_of<'a>(values: Values<'a>, field: u32, place: usize) -> Option<&'a [u8]> {
    let expected = values.places.get(place).filter(|(index, _)| *index == field);
    let found = expected.or_else(|| values.places.iter().find(|(index, _)| *index == field));
    found.map(|(_, range)| &values.bytes[range.clone()])
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    struct Written {
        bytes: Vec<u8>,
        places: Vec<(u32, Range<usize>)>,
    }

    impl Written {
        fn of<'a>(fields: impl IntoIterator<Item = (u32, &'a [u8])>) -> Self {
            let mut written = Self { bytes: Vec::new(), places: Vec::new() };
            for (index, value) in fields {
                let start = written.bytes.len();
                written.bytes.extend_from_slice(value);
                written.places.push((index, start..written.bytes.len()));
            }
            written
        }

        fn values(&self) -> Values<'_> {
            Values { bytes: &self.bytes, places: &self.places }
        }
    }

    fn names(count: usize) -> Names {
        Names((0..count).map(|n| format!("field{n}")).collect())
    }

    fn encoded(names: &Names, fields: &[Vec<u8>]) -> Vec<u8> {
        let fields = (0..).zip(fields.iter().map(Vec::as_slice));
        let mut record = Vec::new();
        encode(names, Written::of(fields).values(), &mut record).unwrap();
        record
    }

    fn decoded(record: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = fields(record).map(|field| field.map(|(n, v)| (n.to_vec(), v.to_vec())));
        pairs.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_record_is_written_byte_for_byte_as_ycsb_writes_it() {
        let names = names(2);
        let written = Written::of([(0, b"ab".as_slice()), (1, b"".as_slice())]);
        let mut record = b"left over".to_vec();
        encode(&names, written.values(), &mut record).unwrap();
        assert_eq!(record, b"\0\0\0\x06field0\0\0\0\x02ab\0\0\0\x06field1\0\0\0\0");
    }

    #[test]
    fn a_merge_replaces_existing_fields_and_appends_new_ones() {
        let names = names(3);
        let stored = encoded(&names, &[b"old0".to_vec(), b"old1".to_vec()]);
        let written = Written::of([(2, b"new2".as_slice()), (1, b"new1".as_slice())]);
        let mut record = Vec::new();
        merge(&stored, &names, written.values(), &mut record).unwrap();
        let expected = encoded(&names, &[b"old0".to_vec(), b"new1".to_vec(), b"new2".to_vec()]);
        assert_eq!(record, expected);
    }

    #[test]
    fn a_merge_keeps_the_order_and_the_unknown_fields_of_the_stored_record() {
        let (one, known) = (names(1), names(2));
        let mut stored = Vec::new();
        put_field(&mut stored, b"other", b"x").unwrap();
        put_field(&mut stored, b"field0", b"y").unwrap();
        let written = Written::of([(0, b"z".as_slice())]);
        let mut record = Vec::new();
        merge(&stored, &one, written.values(), &mut record).unwrap();
        let expected = [(b"other".to_vec(), b"x".to_vec()), (b"field0".to_vec(), b"z".to_vec())];
        assert_eq!(decoded(&record), expected);
        assert_eq!(known.index_of(b"field1", 0), Some(1));
        assert_eq!(known.index_of(b"other", 0), None);
    }

    #[test]
    fn a_merge_copies_bytes_after_its_fields_unchanged() {
        let names = names(2);
        let mut stored = encoded(&names, &[b"old0".to_vec(), b"old1".to_vec()]);
        stored.extend_from_slice(b"damaged");
        let written = Written::of([(1, b"1".as_slice())]);
        let mut record = Vec::new();
        merge(&stored, &names, written.values(), &mut record).unwrap();
        let mut expected = encoded(&names, &[b"old0".to_vec(), b"1".to_vec()]);
        expected.extend_from_slice(b"damaged");
        assert_eq!(record, expected);
    }

    #[test]
    fn a_field_is_found_by_its_name_wherever_it_stands() {
        let stored = encoded(&names(3), &[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
        assert_eq!(field(&stored, b"field1"), Ok(Some(b"b".as_slice())));
        assert_eq!(field(&stored, b"field3"), Ok(None));
        let cut = &stored[..stored.len() - 1];
        assert_eq!(field(cut, b"field1"), Ok(Some(b"b".as_slice())));
        assert_eq!(field(cut, b"field2"), Err(CodecError::Damaged));
    }

    #[test]
    fn a_damaged_record_is_an_error_and_ends_the_fields() {
        let stored = encoded(&names(2), &[b"a".to_vec(), b"b".to_vec()]);
        let cut = &stored[..stored.len() - 1];
        let seen: Vec<_> = fields(cut).collect();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1], Err(CodecError::Damaged));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn an_encoded_record_is_decoded(values in prop::collection::vec(any::<Vec<u8>>(), 0..12)) {
            let names = names(values.len());
            let record = encoded(&names, &values);
            let expected: Vec<_> =
                (0..).map(|n: u32| format!("field{n}").into_bytes()).zip(values).collect();
            prop_assert_eq!(decoded(&record), expected);
        }

        #[test]
        fn decoding_and_merging_any_bytes_never_panics(
            stored in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..200),
        ) {
            let written = Written::of([(0, b"new".as_slice())]);
            let found = field(&stored, b"field0");
            let whole = fields(&stored).all(|field| field.is_ok());
            let merged = merge(&stored, &names(1), written.values(), &mut Vec::new());
            prop_assert_eq!(merged.is_ok(), found.is_ok());
            prop_assert!(found.is_ok() || !whole);
        }

        #[test]
        fn a_merge_of_all_fields_equals_an_insert(
            old in prop::collection::vec(any::<Vec<u8>>(), 6),
            new in prop::collection::vec(any::<Vec<u8>>(), 6),
        ) {
            let names = names(6);
            let written = Written::of((0..).zip(new.iter().map(Vec::as_slice)));
            let mut record = Vec::new();
            merge(&encoded(&names, &old), &names, written.values(), &mut record).unwrap();
            prop_assert_eq!(record, encoded(&names, &new));
        }
    }
}
