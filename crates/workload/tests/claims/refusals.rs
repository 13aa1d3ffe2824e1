//! Errors of invalid workloads state the value, the place and the remedy.

use kvmark_plan::{Distribution, Plan, SizeLaw, ValueKind};
use kvmark_workload::Stream;

use crate::plans::{choosing, plan};

fn refusal(change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = plan();
    change(&mut plan);
    Stream::new(&plan, 0, 0).unwrap_err().to_string()
}

fn refusal_of_law(distribution: Distribution) -> String {
    Stream::new(&choosing(1_000, distribution), 0, 0).unwrap_err().to_string()
}

#[test]
fn a_group_that_is_not_there() {
    let error = Stream::new(&plan(), 0, 1).unwrap_err().to_string();
    assert_eq!(error, "groups[1] isn't in the plan; use an index below 1");
}

#[test]
fn a_mix_without_weight() {
    let error = refusal(|plan| plan.groups[0].mix.clear());
    assert!(error.starts_with("groups[0].mix has no weight above 0;"), "{error}");
}

#[test]
fn a_theta_that_is_not_above_zero() {
    for theta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refusal_of_law(Distribution::Zipfian { theta, scrambled: false });
        assert_eq!(
            error,
            format!("groups[0].keys.distribution.theta is {theta}; use a theta above 0")
        );
    }
}

#[test]
fn more_zipfian_keys_than_2_to_the_63() {
    let error = refusal(|plan| {
        plan.groups[0].keys.count = (1 << 63) + 1;
        plan.groups[0].keys.distribution = Distribution::Zipfian { theta: 1.0, scrambled: true };
    });
    assert!(error.ends_with("use a count up to 2^63"), "{error}");
}

#[test]
fn keys_beyond_64_bits() {
    let error = refusal(|plan| plan.groups[0].keys.start = u64::MAX);
    assert!(error.starts_with("groups[0].keys.count is 1000; use"), "{error}");
}

#[test]
fn fractions_and_percentiles_outside_their_range() {
    let hotspot = Distribution::Hotspot { data_fraction: 0.2, operation_fraction: 1.5 };
    let place = "groups[0].keys.distribution";
    let expected = format!("{place}.operation_fraction is 1.5; use a fraction from 0 to 1");
    assert_eq!(refusal_of_law(hotspot), expected);
    let exponential = |percentile, fraction| Distribution::Exponential { percentile, fraction };
    let expected = format!("{place}.percentile is 100; use a percentile between 0 and 100");
    assert_eq!(refusal_of_law(exponential(100.0, 0.8)), expected);
    let expected = format!("{place}.fraction is 0; use a fraction above 0");
    assert_eq!(refusal_of_law(exponential(95.0, 0.0)), expected);
}

#[test]
fn integrity_values_of_varying_length() {
    let error = refusal(|plan| {
        plan.dataset.values = ValueKind::Integrity;
        plan.dataset.fields.length = SizeLaw::Uniform { min: 1, max: 100 };
    });
    assert!(error.ends_with("integrity values need a constant length"), "{error}");
}

#[test]
fn sizes_that_contradict_themselves() {
    let of = |law| refusal(|plan| plan.groups[0].scan_length = law);
    let upside_down = of(SizeLaw::Uniform { min: 2, max: 1 });
    assert_eq!(upside_down, "groups[0].scan_length.min is 2; use a size up to max");
    let weightless = of(SizeLaw::Histogram { block_size: 1, weights: vec![0, 0] });
    assert!(weightless.starts_with("groups[0].scan_length.weights is [0, 0]; use"), "{weightless}");
    let heavy = of(SizeLaw::Histogram { block_size: 1, weights: vec![u64::MAX, 1] });
    assert!(heavy.contains("use weights with a sum from 1 to 2^64 - 1"), "{heavy}");
    let wide = of(SizeLaw::Histogram { block_size: u64::MAX, weights: vec![1, 1] });
    assert!(wide.contains("block_size"), "{wide}");
}

#[test]
fn copies_that_can_not_be_made() {
    let place = "groups[0].keys.distribution";
    let again = |share, gaps: &[u64], of| {
        let of = Box::new(of);
        refusal_of_law(Distribution::Again { share, gaps: gaps.to_vec(), of })
    };
    let error = again(1.0, &[1], Distribution::Uniform);
    assert_eq!(error, format!("{place}.share is 1; use a share from 0 to below 1"));
    for gaps in [&[][..], &[0, 0], &[u64::MAX, 1], &[1; 64]] {
        let error = again(0.5, gaps, Distribution::Uniform);
        assert!(error.starts_with(&format!("{place}.gaps is [")), "{error}");
    }
    let error = again(0.5, &[1], Distribution::Latest);
    assert!(error.contains("doesn't start at the newest record"), "{error}");
    let inner =
        Distribution::Again { share: 0.5, gaps: vec![1], of: Box::new(Distribution::Uniform) };
    let error = again(0.5, &[1], inner);
    assert!(error.ends_with("again is for the keys of a group, and once"), "{error}");
}

#[test]
fn popular_keys_that_are_too_many_or_have_too_much() {
    let head = |shares| refusal_of_law(Distribution::Head { shares, theta: 0.9 });
    let error = head(vec![0.7, 0.5]);
    assert!(error.ends_with("use shares with a sum up to 1"), "{error}");
    let error = head(vec![0.0001; 1_000]);
    assert!(error.starts_with("groups[0].keys.count is 1000; use a count above"), "{error}");
}
