//! Sizes of values and scans by law.

use kvmark_plan::{FieldChoice, Kind, SizeLaw};
use kvmark_workload::{RecordRef, ValueBuffer};
use proptest::prelude::*;

use crate::plans::{inserts_after, mix, plan, stream};
use crate::statistics::{assert_follows, count};

const DRAWS: u64 = 50_000;

/// Scan lengths by a law.
fn scan_lengths(law: SizeLaw, draws: u64) -> Vec<u64> {
    let mut plan = plan();
    plan.groups[0].mix = mix(&[(Kind::Scan, 1.0)]);
    plan.groups[0].scan_length = law;
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    (0..draws).map(|number| stream.draw(number, &inserts).scan_length).collect()
}

/// Lengths of all fields of inserts by a law.
fn field_lengths(law: SizeLaw, inserts: u64) -> Vec<u64> {
    let mut plan = plan();
    plan.dataset.fields.length = law;
    let stream = stream(&plan);
    let mut values = ValueBuffer::default();
    let mut lengths = Vec::new();
    for number in 0..inserts {
        stream.insert_values_into(number, RecordRef { ordinal: 1, key: b"user1" }, &mut values);
        lengths.extend(values.places.iter().map(|(_, place)| place.len() as u64));
    }
    lengths
}

fn assert_law(lengths: &[u64], min: u64, masses: &[f64], what: &str) {
    let bins = lengths.iter().map(|length| (length - min) as usize);
    assert_follows(&count(masses.len(), bins), masses.iter().copied(), what);
}

#[test]
fn a_constant_size_never_varies() {
    assert!(scan_lengths(SizeLaw::Constant { size: 10 }, 100).iter().all(|length| *length == 10));
}

#[test]
fn uniform_sizes_are_equally_likely_from_min_to_max() {
    let law = SizeLaw::Uniform { min: 5, max: 24 };
    let masses = [0.05; 20];
    assert_law(&scan_lengths(law.clone(), DRAWS), 5, &masses, "scan lengths");
    assert_law(&field_lengths(law, DRAWS / 10), 5, &masses, "field lengths");
}

#[test]
fn zipfian_sizes_are_zipfian_with_the_smallest_most_likely() {
    let law = SizeLaw::Zipfian { min: 3, max: 52 };
    let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-0.99)).collect();
    let sum: f64 = weights.iter().sum();
    let masses: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
    assert_law(&scan_lengths(law.clone(), DRAWS), 3, &masses, "scan lengths");
    assert_law(&field_lengths(law, DRAWS / 10), 3, &masses, "field lengths");
}

#[test]
fn histogram_sizes_are_multiples_of_the_block_size_by_weight() {
    let law = SizeLaw::Histogram { block_size: 8, weights: vec![1, 0, 2, 5] };
    let lengths = field_lengths(law, DRAWS / 10);
    assert!(lengths.iter().all(|length| [8, 24, 32].contains(length)));
    let buckets: Vec<u64> = lengths.iter().map(|length| length / 8).collect();
    assert_law(&buckets, 1, &[0.125, 0.0, 0.25, 0.625], "buckets");
}

#[test]
fn only_scans_have_a_length() {
    let (stream, inserts) = (stream(&plan()), inserts_after(&plan()));
    assert!((0..100).all(|number| stream.draw(number, &inserts).scan_length == 0));
}

#[test]
fn the_one_field_is_any_field_equally_often() {
    let mut plan = plan();
    plan.groups[0].read_fields = FieldChoice::One;
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let drawn = (0..DRAWS).map(|number| stream.draw(number, &inserts).field as usize);
    assert_follows(&count(10, drawn), [0.1; 10].into_iter(), "fields");
}

proptest! {
    #[test]
    fn sizes_keep_to_their_bounds(min in 0..1_000_u64, span in 0..1_000_u64) {
        let max = min + span;
        for law in [SizeLaw::Uniform { min, max }, SizeLaw::Zipfian { min, max }] {
            for length in scan_lengths(law, 50) {
                prop_assert!((min..=max).contains(&length));
            }
        }
    }

    #[test]
    fn the_widest_laws_can_be_drawn(min in 0..1_u64 << 62) {
        let max = min + (1 << 63) - 1;
        for law in [SizeLaw::Uniform { min, max: u64::MAX }, SizeLaw::Zipfian { min, max }] {
            prop_assert!(scan_lengths(law, 10).iter().all(|length| *length >= min));
        }
    }
}
