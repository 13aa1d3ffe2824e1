//! Data-integrity values as YCSB builds them.

use std::iter;

use kvmark_plan::{FieldChoice, SizeLaw, ValueKind};
use kvmark_workload::{RecordRef, Stream, ValueBuffer};
use proptest::prelude::*;

use crate::plans::{inserts_after, plan, stream};

fn integrity_stream(size: u64) -> Stream {
    let mut plan = plan();
    plan.dataset.values = ValueKind::Integrity;
    plan.dataset.fields.length = SizeLaw::Constant { size };
    stream(&plan)
}

fn is_expected(stream: &Stream, key: &[u8], field: u32, found: &[u8]) -> bool {
    stream.records().expected(key, iter::once((field, found)))
}

/// `String.hashCode`, from the beginning each time.
fn java_hash(text: &str) -> i32 {
    text.bytes().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
}

/// The text by its definition.
fn naive_text(key: &str, field: &str, size: usize) -> String {
    let mut text = format!("{key}:{field}");
    while text.len() < size {
        text.push(':');
        text.push_str(&java_hash(&text).to_string());
    }
    text.truncate(size);
    text
}

#[test]
fn the_hash_is_javas() {
    // From the documentation's formula: s[0] * 31^(n-1) + ... + s[n-1].
    assert_eq!(java_hash("hello"), 99_162_322);
    assert_eq!(java_hash("user6284781860667377211:field0:"), java_hash_by_powers());
}

fn java_hash_by_powers() -> i32 {
    let text = b"user6284781860667377211:field0:";
    let powers = (0..text.len() as u32).rev().map(|exponent| 31_i32.wrapping_pow(exponent));
    text.iter()
        .zip(powers)
        .fold(0, |sum: i32, (byte, power)| sum.wrapping_add(i32::from(*byte).wrapping_mul(power)))
}

#[test]
fn values_are_key_field_and_a_chain_of_hashes_cut_to_length() {
    for size in [1, 4, 23, 24, 25, 30, 31, 32, 41, 42, 100, 1_000] {
        let stream = integrity_stream(size);
        let mut key = Vec::new();
        let mut values = ValueBuffer::default();
        for ordinal in 0..50 {
            stream.records().key_into(ordinal, &mut key);
            stream.insert_values_into(ordinal, RecordRef { ordinal, key: &key }, &mut values);
            assert_eq!(values.places.len(), 10);
            for (field, place) in &values.places {
                let name = format!("field{field}");
                let key = std::str::from_utf8(&key).unwrap();
                let expected = naive_text(key, &name, size as usize);
                let found = std::str::from_utf8(&values.bytes[place.clone()]).unwrap();
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_value_is_expected_only_under_its_key_and_field_and_whole() {
    let stream = integrity_stream(100);
    let text = naive_text("user1", "field3", 100);
    assert!(is_expected(&stream, b"user1", 3, text.as_bytes()));
    assert!(!is_expected(&stream, b"user2", 3, text.as_bytes()));
    assert!(!is_expected(&stream, b"user1", 4, text.as_bytes()));
    assert!(
        !is_expected(&stream, b"user1", 10, text.as_bytes()),
        "there is no field of that index"
    );
    assert!(!is_expected(&stream, b"user1", 3, &text.as_bytes()[..99]));
    assert!(!is_expected(&stream, b"user1", 3, naive_text("user1", "field3", 101).as_bytes()));
    assert!(!is_expected(&stream, b"user1", 3, b""));
}

#[test]
fn an_empty_value_is_expected_where_fields_are_empty() {
    assert!(is_expected(&integrity_stream(0), b"user1", 0, b""));
}

#[test]
fn noise_is_never_refused() {
    assert!(is_expected(&stream(&plan()), b"user1", 0, b"anything"));
}

#[test]
fn an_update_of_one_field_writes_the_expected_value() {
    let mut plan = plan();
    plan.dataset.values = ValueKind::Integrity;
    plan.groups[0].write_fields = FieldChoice::One;
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let mut values = ValueBuffer::default();
    for number in 0..100 {
        let draw = stream.draw(number, &inserts);
        stream.update_values_into(&draw, b"user1", &mut values);
        assert_eq!(values.places, [(draw.field, 0..100)]);
        assert!(is_expected(&stream, b"user1", draw.field, &values.bytes));
    }
}

proptest! {
    #[test]
    fn any_changed_byte_is_noticed(
        ordinal: u64,
        size in 1..=100_usize,
        place: usize,
        change in 1..=255_u8,
    ) {
        let stream = integrity_stream(size as u64);
        let mut key = Vec::new();
        stream.records().key_into(ordinal, &mut key);
        let mut value = naive_text(std::str::from_utf8(&key).unwrap(), "field7", size).into_bytes();
        prop_assert!(is_expected(&stream, &key, 7, &value));
        value[place % size] ^= change;
        prop_assert!(!is_expected(&stream, &key, 7, &value));
    }
}
