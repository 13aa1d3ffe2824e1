//! Rules that end a phase when the mean rate is known well enough, or doesn't move any more.

use kvmark_plan::{Until, UntilRule};

use crate::drift::Drift;

/// What a rule takes of one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Begin of the interval.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// Rows read or written, at least one per operation that didn't fail.
    pub rows: u64,
    /// The largest service time that was recorded in the interval.
    pub largest_service_ns: u64,
}

impl RateSample {
    /// Rows per second.
    fn rate(&self) -> f64 {
        self.rows as f64 * 1e9 / (self.end_ns - self.start_ns) as f64
    }

    /// cassandra-stress's adjusted rate: as if the interval had begun later by its largest service
    /// time. Negative when that is longer than the interval, as it is there.
    fn adjusted_rate(&self) -> f64 {
        let length_ns =
            self.end_ns as f64 - (self.start_ns as f64 + self.largest_service_ns as f64);
        self.rows as f64 * 1e9 / length_ns
    }
}

/// One stop rule at work. A phase has a fresh one.
///
/// Who looks after each interval and stops when an estimate first falls below a bound, stops where
/// the estimate is too low by chance (Y. S. Chow, H. Robbins, "On the Asymptotic Theory of
/// Fixed-Width Sequential Confidence Intervals", 1965; P. W. Glynn, W. Whitt, "The Asymptotic
/// Validity of Sequential Stopping Rules for Stochastic Simulations", 1992). Our own rule therefore
/// looks when the number of intervals has grown by a quarter, and its standard error has an
/// [`allowance`] for its own uncertainty. cassandra-stress's rule is as it is there. Of a warm-up's
/// rate the newer half is looked at: see [`Drift`].
#[derive(Clone, Debug)]
pub struct StopRule {
    until: Until,
    rates: Rates,
    /// At how many intervals the rule looks next.
    next_look: u64,
    /// Whether what is waited for had come at the last look.
    reached: bool,
}

#[derive(Clone, Debug)]
enum Rates {
    Independent { n: u64, sum: f64, sum_of_squares: f64 },
    Series(Vec<f64>),
    Drifting(Vec<f64>),
}

impl StopRule {
    /// The rule of a plan.
    #[must_use]
    pub fn new(until: Until) -> Self {
        let rates = match until.rule {
            UntilRule::CassandraStress => {
                Rates::Independent { n: 0, sum: 0.0, sum_of_squares: 0.0 }
            }
            UntilRule::Autocorrelated => Rates::Series(Vec::new()),
            UntilRule::Stationary => Rates::Drifting(Vec::new()),
        };
        Self { until, rates, next_look: until.min_intervals.into(), reached: false }
    }

    /// Takes the next interval. One without length says nothing and is left out.
    pub fn push(&mut self, interval: &RateSample) {
        if interval.end_ns <= interval.start_ns {
            return;
        }
        match &mut self.rates {
            Rates::Independent { n, sum, sum_of_squares } => {
                let rate = interval.adjusted_rate();
                *n += 1;
                *sum += rate;
                *sum_of_squares += rate * rate;
            }
            Rates::Series(rates) | Rates::Drifting(rates) => rates.push(interval.rate()),
        }
        let n = self.intervals();
        if n >= self.next_look {
            self.reached = self.is_reached();
            self.next_look = match self.until.rule {
                UntilRule::CassandraStress | UntilRule::Stationary => n + 1,
                UntilRule::Autocorrelated => n + (n / 4).max(1),
            };
        }
    }

    /// Relative standard error of the mean rate, by our own rule with its allowance; none when the
    /// intervals don't give one yet.
    #[must_use]
    pub fn relative_stderr(&self) -> Option<f64> {
        let stderr = match &self.rates {
            Rates::Independent { n: 0, .. } => return None,
            Rates::Independent { n, sum, sum_of_squares } => {
                independent_stderr(*n as f64, *sum, *sum_of_squares)
            }
            Rates::Series(rates) => autocorrelated_stderr(rates)?,
            Rates::Drifting(_) => return None,
        };
        stderr.is_finite().then_some(stderr)
    }

    /// Whether the phase may end.
    #[must_use]
    pub fn satisfied(&self) -> bool {
        let n = self.intervals();
        let full = self.until.max_intervals.is_some_and(|max| n >= u64::from(max));
        full || (n > 0 && self.reached)
    }

    fn is_reached(&self) -> bool {
        match &self.rates {
            Rates::Drifting(rates) => {
                let newer = &rates[rates.len() / 2..];
                Drift::of(newer).is_some_and(|drift| drift.is_below(self.until.bound))
            }
            _ => self.relative_stderr().is_some_and(|stderr| stderr < self.until.bound),
        }
    }

    fn intervals(&self) -> u64 {
        match &self.rates {
            Rates::Independent { n, .. } => *n,
            Rates::Series(rates) | Rates::Drifting(rates) => rates.len() as u64,
        }
    }
}

/// cassandra-stress (`util/Uncertainty.java`): the *population* standard deviation over the square
/// root of n, over the mean; intervals are taken as independent.
fn independent_stderr(n: f64, sum: f64, sum_of_squares: f64) -> f64 {
    let mean = sum / n;
    let variance = (sum_of_squares / n - mean * mean).max(0.0);
    variance.sqrt() / n.sqrt() / mean
}

/// The sample standard deviation over the square root of the effective sample size, over the mean.
///
/// The effective sample size is n · γ(0) / (γ(0) + 2 Σ γ(k)), the sum of the autocovariances cut
/// off by Geyer's initial monotone sequence: sums of neighbouring pairs are added while they are
/// positive, none counted for more than the one before (C. J. Geyer, "Practical Markov Chain Monte
/// Carlo", Statistical Science 7, 1992). It is never taken as more than n: a rate that swings up
/// and down gives no credit.
fn autocorrelated_stderr(rates: &[f64]) -> Option<f64> {
    if rates.len() < 4 {
        return None;
    }
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let deviations: Vec<f64> = rates.iter().map(|rate| rate - mean).collect();
    let variance = autocovariance(&deviations, 0);
    let long_run_variance = initial_monotone_sum(&deviations).max(variance);
    let effective = if variance > 0.0 { n * variance / long_run_variance } else { n };
    Some((long_run_variance / (n - 1.0)).sqrt() / mean * allowance(effective))
}

/// The factor by which an estimate of a standard error is raised, so that at the bound it isn't too
/// low by chance. The estimate's own relative standard error is near `1 / √(2 n)` with n effective
/// intervals; the cut-off of the sum adds to that. With twice `1 / √n`, the true error where the
/// rule stopped was 0.7 to 1.2 of what it said, for rates with a memory of 0 to 0.8; without it, up
/// to 1.7.
fn allowance(effective: f64) -> f64 {
    1.0 + 2.0 / effective.sqrt()
}

/// γ(0) + 2 Σ γ(k), cut off as Geyer says.
fn initial_monotone_sum(deviations: &[f64]) -> f64 {
    let mut sum = -autocovariance(deviations, 0);
    let mut before = f64::INFINITY;
    for lag in (0..deviations.len() - 1).step_by(2) {
        let pair = autocovariance(deviations, lag) + autocovariance(deviations, lag + 1);
        if pair <= 0.0 {
            break;
        }
        before = before.min(pair);
        sum += 2.0 * before;
    }
    sum
}

fn autocovariance(deviations: &[f64], lag: usize) -> f64 {
    let pairs = deviations.iter().zip(&deviations[lag..]);
    pairs.map(|(a, b)| a * b).sum::<f64>() / deviations.len() as f64
}
