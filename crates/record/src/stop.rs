//! Rules that end a phase when the mean rate is precise enough, or stationary.

use kvmark_plan::{Until, UntilRule};

use crate::drift::Drift;
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
/// see [`Drift`].
#[derive(Clone, Debug)]
pub struct StopRule {
    until: Until,
    rates: Rates,
    /// Number of intervals at the next evaluation.
    next_look: u64,
    /// Whether the bound was met at the last evaluation.
    reached: bool,
}

#[derive(Clone, Debug)]
enum Rates {
    Independent { n: u64, sum: f64, sum_of_squares: f64 },
    Series(Vec<f64>),
}

impl StopRule {
    /// The rule of a plan.
    #[must_use]
    pub fn new(until: Until) -> Self {
        let rates = match until.rule {
            UntilRule::CassandraStress => {
                Rates::Independent { n: 0, sum: 0.0, sum_of_squares: 0.0 }
            }
            UntilRule::Precision | UntilRule::Stationary => Rates::Series(Vec::new()),
        };
        Self { until, rates, next_look: until.min_intervals.into(), reached: false }
    }

    /// Takes the next interval. An empty one is ignored.
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
            Rates::Series(rates) => rates.push(interval.throughput()),
        }
        let n = self.intervals();
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
        let stderr = match (&self.rates, self.until.rule) {
            (Rates::Independent { n: 0, .. }, _) | (_, UntilRule::Stationary) => return None,
            (Rates::Independent { n, sum, sum_of_squares }, _) => {
                independent_stderr(*n as f64, *sum, *sum_of_squares)
            }
            (Rates::Series(rates), _) => MeanError::of(rates)?.relative_stderr(),
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
        match (&self.rates, self.until.rule) {
            (Rates::Series(rates), UntilRule::Stationary) => {
                let newer = &rates[rates.len() / 2..];
                Drift::of(newer).is_some_and(|drift| drift.is_below(self.until.bound))
            }
            (Rates::Series(rates), _) => MeanError::of(rates).is_some_and(|error| {
                error.contrasts >= LEAST_CONTRASTS && error.relative_half_width() < self.until.bound
            }),
            _ => self.relative_stderr().is_some_and(|stderr| stderr < self.until.bound),
        }
    }

    fn intervals(&self) -> u64 {
        match &self.rates {
            Rates::Independent { n, .. } => *n,
            Rates::Series(rates) => rates.len() as u64,
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
