//! Goodness-of-fit tests of drawn counts.

/// How often each of `0 .. bins` was drawn.
pub(crate) fn count(bins: usize, drawn: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut counts = vec![0; bins];
    for bin in drawn {
        counts[bin] += 1;
    }
    counts
}

/// Pearson's test of counts against the mass of each bin, at a chance of about 1 in 30,000 of being
/// wrong. Neighbouring bins are joined until ten draws are expected in each.
pub(crate) fn assert_follows(counts: &[u64], masses: impl Iterator<Item = f64>, what: &str) {
    let draws = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut bins, mut mass_of_all) = (0.0, 0.0, 0.0);
    let (mut observed, mut expected) = (0.0, 0.0);
    for (count, mass) in counts.iter().zip(masses) {
        mass_of_all += mass;
        observed += *count as f64;
        expected += mass * draws;
        if expected >= 10.0 {
            statistic += (observed - expected).powi(2) / expected;
            bins += 1.0;
            (observed, expected) = (0.0, 0.0);
        }
    }
    assert!((mass_of_all - 1.0).abs() < 1e-3, "{what}: the masses add up to {mass_of_all}");
    assert!(bins >= 2.0, "{what}: {draws} draws are too few to judge");
    let bound = chi_square_bound(bins - 1.0);
    assert!(statistic < bound, "{what}: {statistic:.1} is above {bound:.1} for {bins} bins");
}

/// The quantile of the chi-square law four standard deviations out (Wilson and Hilferty 1931).
fn chi_square_bound(degrees: f64) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + 4.0 * spread.sqrt()).powi(3)
}

/// Kolmogorov and Smirnov's test of draws in `[0, 1]` against the uniform law, at a chance of about
/// 1 in 20,000 of being wrong. Laws are tested through their own distribution function.
pub(crate) fn assert_uniform(mut draws: Vec<f64>, what: &str) {
    draws.sort_unstable_by(f64::total_cmp);
    let count = draws.len() as f64;
    let distance = draws.iter().zip(0_u32..).fold(0.0_f64, |largest, (draw, rank)| {
        let rank = f64::from(rank);
        largest.max(draw - rank / count).max((rank + 1.0) / count - draw)
    });
    let bound = 2.3 / count.sqrt();
    assert!(distance < bound, "{what}: the distance {distance:.5} is above {bound:.5}");
}
