//! Drift of a series of rates.

/// Only the newest values of a longer series count, because all pairs are compared.
const MOST_VALUES: usize = 120;

/// z of the Mann-Kendall test beyond which a drift is significant: 5 %, two-sided.
const SIGNIFICANT: f64 = 1.96;

/// Whether a series of rates is stationary: its drift, as a share of the median, is below a bound
/// or not significant. Not with fewer than four values, or if most are 0.
///
/// Theil-Sen's slope and the Mann-Kendall test, as in the verdict of a measurement
/// (`kvmark.stats.series`), but without a correction for autocorrelation. An autocorrelated rate
/// appears to drift more often, which only makes the warm-up a little longer.
pub(crate) fn is_stationary(rates: &[f64], bound: f64) -> bool {
    let rates = &rates[rates.len().saturating_sub(MOST_VALUES)..];
    let n = rates.len();
    let median_rate = if n < 4 { 0.0 } else { median(rates.to_vec()) };
    if median_rate <= 0.0 {
        return false;
    }
    let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let slope = median(pairs().map(|(i, j)| (rates[j] - rates[i]) / (j - i) as f64).collect());
    let score: f64 = pairs().map(|(i, j)| sign(rates[j] - rates[i])).sum();
    let length = n as f64;
    let change = slope * (length - 1.0) / median_rate;
    let variance = length * (length - 1.0) * (2.0 * length + 5.0) / 18.0;
    // Continuity correction: the score is discrete.
    let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
    change.abs() < bound || z < SIGNIFICANT
}

fn sign(difference: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference.signum() }
}

/// The values aren't empty.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
