//! Rules that end a phase when the mean rate is precise enough, or stationary.

use kvmark_plan::{Until, UntilRule};

use crate::drift::is_stationary;
use crate::precision::MeanError;

/// Fewest degrees of freedom of an estimate that may end a phase: with fewer, estimates are too
/// often too small by chance.
const LEAST_CONTRASTS: usize = 4;

/// The figures of one interval for a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Begin of the interval.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// Rows read or written, at least one per operation that didn't fail.
    pub rows: u64,
    /// Operations that succeeded.
    pub succeeded: u64,
    /// The largest service time that was recorded in the interval.
    pub largest_service_ns: u64,
}

impl RateSample {
    /// Successful operations per second.
    fn throughput(&self) -> f64 {
        self.succeeded as f64 * 1e9 / (self.end_ns - self.start_ns) as f64
    }

    /// cassandra-stress's adjusted rate: as if the interval had begun later by its largest service
    /// time. Negative when that is longer than the interval, as it is there.
    fn adjusted_rate(&self) -> f64 {
        let length_ns =
            self.end_ns as f64 - (self.start_ns as f64 + self.largest_service_ns as f64);
        self.rows as f64 * 1e9 / length_ns
    }
}

/// The state of a stop rule during one phase.
///
/// A rule that is evaluated after each interval and stops at the first estimate below a bound stops
/// where the estimate is too low by chance (Y. S. Chow, H. Robbins, "On the Asymptotic Theory of
/// Fixed-Width Sequential Confidence Intervals", 1965; P. W. Glynn, W. Whitt, "The Asymptotic
/// Validity of Sequential Stopping Rules for Stochastic Simulations", 1992). The precision rule is
/// therefore evaluated only when the number of intervals has doubled, needs at least
/// [`LEAST_CONTRASTS`], and its interval is wider than that of a run of fixed length (see
/// [`crate::precision`]). `scripts/interval_coverage.py` shows the resulting coverage.
/// cassandra-stress's rule is unchanged. A warm-up's rule evaluates the newer half of the rates,
/// see [`is_stationary`].
#[derive(Clone, Debug)]
pub struct StopRule {
    until: Until,
    rates: Vec<f64>,
    /// Number of intervals at the next evaluation.
    next_look: usize,
    /// Whether the bound was met at the last evaluation.
    reached: bool,
}

impl StopRule {
    /// The rule of a plan.
    #[must_use]
    pub fn new(until: Until) -> Self {
        let next_look = until.min_intervals as usize;
        Self { until, rates: Vec::new(), next_look, reached: false }
    }

    /// Takes the next interval. An empty one is ignored.
    pub fn push(&mut self, interval: &RateSample) {
        if interval.end_ns <= interval.start_ns {
            return;
        }
        self.rates.push(match self.until.rule {
            UntilRule::CassandraStress => interval.adjusted_rate(),
            UntilRule::Precision | UntilRule::Stationary => interval.throughput(),
        });
        let n = self.rates.len();
        if n >= self.next_look {
            self.reached = self.is_reached();
            self.next_look = match self.until.rule {
                UntilRule::CassandraStress | UntilRule::Stationary => n + 1,
                UntilRule::Precision => 2 * n,
            };
        }
    }

    /// Relative standard error of the mean rate; `None` with too few intervals, and for a warm-up.
    #[must_use]
    pub fn relative_stderr(&self) -> Option<f64> {
        let stderr = match self.until.rule {
            UntilRule::Stationary => return None,
            UntilRule::CassandraStress => independent_stderr(&self.rates),
            UntilRule::Precision => MeanError::of(&self.rates)?.relative_stderr,
        };
        stderr.is_finite().then_some(stderr)
    }

    /// Whether the phase may end.
    #[must_use]
    pub fn satisfied(&self) -> bool {
        let n = self.rates.len();
        let full = self.until.max_intervals.is_some_and(|max| n >= max as usize);
        full || (n > 0 && self.reached)
    }

    fn is_reached(&self) -> bool {
        let Until { rule, bound, .. } = self.until;
        match rule {
            UntilRule::Stationary => is_stationary(&self.rates[self.rates.len() / 2..], bound),
            UntilRule::Precision => MeanError::of(&self.rates).is_some_and(|error| {
                error.contrasts >= LEAST_CONTRASTS && error.relative_half_width < bound
            }),
            UntilRule::CassandraStress => {
                self.relative_stderr().is_some_and(|stderr| stderr < bound)
            }
        }
    }
}

/// cassandra-stress (`util/Uncertainty.java`): the *population* standard deviation over the square
/// root of n, over the mean; intervals are taken as independent.
fn independent_stderr(rates: &[f64]) -> f64 {
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let sum_of_squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let variance = (sum_of_squares / n - mean * mean).max(0.0);
    variance.sqrt() / n.sqrt() / mean
}
