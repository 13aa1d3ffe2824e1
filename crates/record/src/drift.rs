//! Drift of a series of rates.

/// Only the newest values of a longer series count, because all pairs are compared.
const MOST_VALUES: usize = 120;

/// z of the Mann-Kendall test beyond which a drift is significant: 5 %, two-sided.
const SIGNIFICANT: f64 = 1.96;

/// The size of a drift, and its significance.
///
/// Theil-Sen's slope and the Mann-Kendall test, as in the verdict of a measurement
/// (`kvmark.stats.series`), but without a correction for autocorrelation. An autocorrelated rate
/// appears to drift more often, which only makes the warm-up a little longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drift {
    /// The change over the whole series, as a share of its median.
    change: f64,
    /// The Mann-Kendall test's z.
    z: f64,
}

impl Drift {
    /// The drift of the newest values of a series; `None` with fewer than four values, or if most
    /// are 0.
    pub(crate) fn of(rates: &[f64]) -> Option<Self> {
        let rates = &rates[rates.len().saturating_sub(MOST_VALUES)..];
        let n = rates.len();
        let median_rate = median(rates.to_vec())?;
        if n < 4 || median_rate <= 0.0 {
            return None;
        }
        let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let slope = median(pairs().map(|(i, j)| (rates[j] - rates[i]) / (j - i) as f64).collect())?;
        let score: f64 = pairs().map(|(i, j)| sign(rates[j] - rates[i])).sum();
        let length = n as f64;
        let variance = length * (length - 1.0) * (2.0 * length + 5.0) / 18.0;
        // Continuity correction: the score is discrete.
        let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
        Some(Self { change: slope * (length - 1.0) / median_rate, z })
    }

    /// Whether the series is stationary: the change is small or not significant.
    pub(crate) fn is_below(self, share: f64) -> bool {
        self.change.abs() < share || self.z < SIGNIFICANT
    }
}

fn sign(difference: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference.signum() }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
