//! Key texts as YCSB writes them.

use kvmark_plan::KeyOrder;
use proptest::prelude::*;

use crate::plans::{plan, stream};

fn key(order: KeyOrder, zero_padding: u32, ordinal: u64) -> String {
    let mut plan = plan();
    plan.dataset.key.order = order;
    plan.dataset.key.zero_padding = zero_padding;
    let mut key = b"left over from the last operation".to_vec();
    stream(&plan).records().key_into(ordinal, &mut key);
    String::from_utf8(key).unwrap()
}

#[test]
fn hashed_keys_are_the_ones_ycsb_loads() {
    let first = ["user6284781860667377211", "user8517097267634966620", "user1820151046732198393"];
    for (ordinal, text) in (0..).zip(first) {
        assert_eq!(key(KeyOrder::Hashed, 1, ordinal), text);
    }
}

#[test]
fn a_key_is_padded_with_zeros_and_never_cut() {
    assert_eq!(key(KeyOrder::Ordered, 1, 0), "user0");
    assert_eq!(key(KeyOrder::Ordered, 0, 7), "user7");
    assert_eq!(key(KeyOrder::Ordered, 6, 42), "user000042");
    assert_eq!(key(KeyOrder::Ordered, 2, 12_345), "user12345");
    assert_eq!(key(KeyOrder::Hashed, 22, 0), "user0006284781860667377211");
    assert_eq!(key(KeyOrder::Ordered, 1, u64::MAX), "user18446744073709551615");
}

#[test]
fn a_key_is_written_without_allocating_once_its_buffer_is_large_enough() {
    let stream = stream(&plan());
    let mut key = Vec::with_capacity(64);
    let memory = key.as_ptr();
    for ordinal in 0..1_000 {
        stream.records().key_into(ordinal, &mut key);
        assert_eq!(key.as_ptr(), memory);
    }
}

/// YCSB's number for an ordinal, one octet after the other.
fn slow_hash(ordinal: u64) -> i64 {
    let hash = ordinal.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(1_099_511_628_211)
    });
    (hash as i64).wrapping_abs()
}

proptest! {
    #[test]
    fn an_ordered_key_is_its_ordinal(ordinal: u64, padding in 0..40_u32) {
        let text = key(KeyOrder::Ordered, padding, ordinal);
        let digits = text.strip_prefix("user").unwrap();
        prop_assert_eq!(digits.parse::<u64>().unwrap(), ordinal);
        let expected = ordinal.to_string().len().max(padding as usize);
        prop_assert_eq!(digits.len(), expected);
    }

    #[test]
    fn a_hashed_key_is_the_hash_of_its_ordinal(ordinal: u64, padding in 0..40_u32) {
        let text = key(KeyOrder::Hashed, padding, ordinal);
        let digits = text.strip_prefix("user").unwrap();
        prop_assert_eq!(digits.parse::<i64>().unwrap(), slow_hash(ordinal));
        prop_assert!(digits.len() >= padding as usize);
    }

    #[test]
    fn padded_ordered_keys_sort_like_their_ordinals(one: u64, other: u64) {
        let (first, second) = (key(KeyOrder::Ordered, 20, one), key(KeyOrder::Ordered, 20, other));
        prop_assert_eq!(first.cmp(&second), one.cmp(&other));
    }
}
