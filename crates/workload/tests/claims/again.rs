//! Repeated keys: popularity follows the law, and gaps have the configured distribution.

use kvmark_plan::{Distribution, Plan};

use crate::plans::{choosing, inserts_after, ordinals, stream};
use crate::statistics::{assert_follows, count};

const DRAWS: u64 = 200_000;

fn again(share: f64, gaps: &[u64], of: Distribution) -> Distribution {
    Distribution::Again { share, gaps: gaps.to_vec(), of: Box::new(of) }
}

fn zipfian(theta: f64) -> Distribution {
    Distribution::Zipfian { theta, scrambled: false }
}

/// Operation 700's key for a number of seeds, each with a separate stream.
fn under_seeds(plan: &mut Plan, seeds: u64) -> Vec<u64> {
    let one = |seed| {
        plan.seeds.keys = seed;
        stream(plan).draw(700, &inserts_after(plan)).ordinal
    };
    (0..seeds).map(one).collect()
}

#[test]
fn each_operations_key_has_the_laws_own_distribution() {
    let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-0.9)).collect();
    let sum: f64 = weights.iter().sum();
    for share in [0.0, 0.5, 0.95] {
        let mut plan = choosing(50, again(share, &[3, 2, 1, 0, 0, 4], zipfian(0.9)));
        let drawn = under_seeds(&mut plan, 30_000).into_iter().map(|ordinal| ordinal as usize);
        let masses = weights.iter().map(|weight| weight / sum);
        assert_follows(&count(50, drawn), masses, &format!("share {share}"));
    }
}

/// Probability that an operation has the key of the one `gap` before it, with so large a key space
/// that no key is drawn twice: it copies that operation, or one with the same key.
fn closed_form(share: f64, gaps: &[u64], most: usize) -> Vec<f64> {
    let total: u64 = gaps.iter().sum();
    let likely = |gap: usize| {
        let octave = gap.ilog2() as usize;
        let weight = gaps.get(octave).copied().unwrap_or(0);
        weight as f64 / total as f64 / (1_u64 << octave) as f64
    };
    let mut same = vec![0.0; most];
    same[0] = 1.0;
    for _ in 0..200 {
        for distance in 1..most {
            let sum = |gap: usize| likely(gap) * same.get(distance.abs_diff(gap)).unwrap_or(&0.0);
            same[distance] = share * (1..most).map(sum).sum::<f64>();
        }
    }
    same
}

#[test]
fn operations_share_keys_at_the_gaps_that_are_asked_for() {
    for (share, gaps) in [(0.3, vec![1]), (0.6, vec![0, 0, 0, 1]), (0.5, vec![2, 1, 0, 3])] {
        let law = again(share, &gaps, Distribution::Uniform);
        let drawn: Vec<u64> = ordinals(&choosing(1 << 60, law), DRAWS).collect();
        let expected = closed_form(share, &gaps, 200);
        for distance in 1..20 {
            let same = drawn.windows(distance + 1).filter(|part| part[0] == part[distance]).count();
            let found = same as f64 / DRAWS as f64;
            let off = (found - expected[distance]).abs();
            assert!(off < 0.008, "{distance} apart: {found}, not {}", expected[distance]);
        }
    }
}

#[test]
fn a_share_of_operations_has_a_key_that_was_there_before() {
    for share in [0.0, 0.2, 0.8, 0.95] {
        let law = again(share, &[1, 1, 1, 1, 1, 1, 1, 1], Distribution::Uniform);
        let drawn: Vec<u64> = ordinals(&choosing(1 << 60, law), DRAWS).collect();
        let different: std::collections::HashSet<_> = drawn.iter().collect();
        let found = 1.0 - different.len() as f64 / DRAWS as f64;
        // Only the rare 65th copy in a chain is drawn.
        assert!((found - share).abs() < 0.006, "{found}, not {share}");
    }
}

#[test]
fn an_operations_key_is_the_same_on_any_worker() {
    let plan = choosing(1_000, again(0.7, &[5, 3, 1, 1, 0, 2], zipfian(0.99)));
    let whole: Vec<u64> = ordinals(&plan, 5_000).collect();
    let inserts = inserts_after(&plan);
    for workers in [2, 3, 7] {
        for worker in 0..workers {
            let own = stream(&plan);
            for number in (worker..5_000).step_by(workers).rev() {
                assert_eq!(own.draw(number as u64, &inserts).ordinal, whole[number]);
            }
        }
    }
}

#[test]
fn unavailable_records_are_drawn_again_by_the_law() {
    let mut plan = choosing(1_000, again(0.7, &[1, 1], Distribution::Uniform));
    plan.dataset.count = 100;
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let counts = count(100, (0..DRAWS).map(|one| stream.draw(one, &inserts).ordinal as usize));
    let mean = DRAWS / 100;
    assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 4), "{counts:?}");
}

#[test]
fn popular_keys_have_their_shares_and_the_others_fall_by_the_exponent() {
    let (keys, theta) = (500, 0.7);
    let law = Distribution::Head { shares: vec![0.2, 0.1, 0.15], theta };
    let drawn = ordinals(&choosing(keys, law), DRAWS).map(|ordinal| ordinal as usize);
    let mut counts = count(keys as usize, drawn);
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let weights: Vec<f64> = (4..=500).map(|rank| f64::from(rank).powf(-theta)).collect();
    let sum: f64 = weights.iter().sum();
    // Counts identify the tail's ranks while they differ enough.
    let tail = weights.iter().map(|weight| 0.55 * weight / sum);
    for (place, mass) in [0.2, 0.15, 0.1].into_iter().chain(tail.take(4)).enumerate() {
        let expected = mass * DRAWS as f64;
        let off = (counts[place] as f64 - expected).abs();
        assert!(off < 4.0 * expected.sqrt(), "{place}: {} of {expected}", counts[place]);
    }
    let least = *counts.last().unwrap() as f64;
    let expected = 0.55 * weights[496] / sum * DRAWS as f64;
    assert!((expected / 2.0..expected).contains(&least), "{least} of {expected}");
}
