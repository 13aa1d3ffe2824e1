//! The profile and environment of tests, as set by `scripts/cargo.py`.

use std::env;
use std::hint::black_box;

#[test]
#[should_panic(expected = "overflow")]
fn a_sum_that_overflows_ends_a_test() {
    black_box(black_box(u8::MAX) + 1);
}

#[test]
fn property_tests_have_a_fixed_seed() {
    assert!(env::var("PROPTEST_RNG_SEED").is_ok_and(|seed| seed.parse::<u64>().is_ok()));
}
