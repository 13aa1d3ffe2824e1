//! The error of the mean of an autocorrelated series.
//!
//! The estimator is that of the printed interval (`kvmark.stats.series.mean_error`, which describes
//! the method and its sources), so that a run that ends at a precision prints that precision. A
//! test of the Python package compares the two.

use std::f64::consts::PI;

/// Smallest number of values for an estimate.
const LEAST_INTERVALS: usize = 25;
/// Independent observations per contrast.
const WORTH: f64 = 7.0;
/// 0.975-quantiles of Student's t with 2 to 12 degrees of freedom.
const STUDENT: [f64; 11] = [
    4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813,
];
/// Factor by which the interval is wider than Student's, with 2 to 12 degrees of freedom: Student's
/// interval uses 0.8 of the error level, of which 0.7 remain because the rule is evaluated
/// repeatedly.
const WIDENED: [f64; 11] = [
    1.362958, 1.261716, 1.219644, 1.197177, 1.183343, 1.174014, 1.167313, 1.162275, 1.158353,
    1.155215, 1.152648,
];
const FEWEST: usize = 2;

/// The error of a series' mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanError {
    /// Degrees of freedom.
    pub(crate) contrasts: usize,
    /// Relative to the mean; not finite if that is 0.
    pub(crate) relative_stderr: f64,
    /// Half the width of the 95 % interval, relative to the mean; below no bound if that is 0.
    pub(crate) relative_half_width: f64,
}

impl MeanError {
    /// The error of a series; `None` if it is too short.
    pub(crate) fn of(series: &[f64]) -> Option<Self> {
        let n = series.len();
        if n < LEAST_INTERVALS {
            return None;
        }
        let mean = series.iter().sum::<f64>() / n as f64;
        let deviations: Vec<f64> = series.iter().map(|value| value - mean).collect();
        let most = FEWEST + STUDENT.len() - 1;
        let contrasts = (effective_sample_size(&deviations) / WORTH) as usize;
        let contrasts = contrasts.clamp(FEWEST, most);
        let powers = (1..=contrasts).map(|wave| projection(&deviations, wave).powi(2) * 2.0);
        let power = powers.sum::<f64>() / (contrasts as f64 * n as f64);
        let stderr = (power / n as f64).sqrt() * WIDENED[contrasts - FEWEST];
        let half_width = stderr * STUDENT[contrasts - FEWEST];
        let (relative_stderr, relative_half_width) = (stderr / mean, half_width / mean);
        Some(Self { contrasts, relative_stderr, relative_half_width })
    }
}

/// Projection of the series on a cosine of `wave` half waves, which is orthogonal to its mean.
fn projection(deviations: &[f64], wave: usize) -> f64 {
    let step = PI * wave as f64 / deviations.len() as f64;
    let wave = |place: usize| ((place as f64 + 0.5) * step).cos();
    deviations.iter().enumerate().map(|(place, value)| value * wave(place)).sum()
}

/// Effective number of independent observations: n over the integrated autocorrelation time by
/// Geyer's initial monotone positive sequence.
fn effective_sample_size(deviations: &[f64]) -> f64 {
    let n = deviations.len() as f64;
    let variance = autocovariance(deviations, 0);
    if variance <= 0.0 {
        return n;
    }
    let mut sum = 0.0;
    let mut before = f64::INFINITY;
    for lag in (0..deviations.len() - 1).step_by(2) {
        let pair = autocovariance(deviations, lag) + autocovariance(deviations, lag + 1);
        if pair <= 0.0 {
            break;
        }
        before = before.min(pair);
        sum += before;
    }
    let time = if sum > 0.0 { 2.0 * sum / variance - 1.0 } else { 1.0 };
    (n / time.max(1.0)).clamp(1.0, n)
}

fn autocovariance(deviations: &[f64], lag: usize) -> f64 {
    let pairs = deviations.iter().zip(&deviations[lag..]);
    pairs.map(|(a, b)| a * b).sum::<f64>() / deviations.len() as f64
}
