//! A constant process at one rate, in whole numbers: exact after any number of arrivals.

use crate::partition::PartitionCursor;

/// Nanoseconds in a second, times the unit of [`Even::rate`].
const SCALE: u128 = 1_000_000_000 * 1_000_000_000;

/// Arrival i is due at `floor(i / rate)`.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    /// Arrivals per second, in units of 10^-9.
    rate: u128,
    pub(crate) at: Instant,
    /// What a step adds, and a leap.
    strides: [Instant; 2],
}

/// Whole nanoseconds, and the rest in units of 1 / rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    pub(crate) ns: u64,
    rest: u128,
}

impl Even {
    pub(crate) fn new(rate: f64, numbers: &PartitionCursor) -> Self {
        let rate = ((rate * 1e9).round() as u128).max(1);
        let strides = [numbers.partition.step, numbers.leap].map(|stride| divide(stride, rate));
        Self { rate, at: divide(numbers.number, rate), strides }
    }

    /// Adds a stride and carries, so that nothing is divided. Returns the next instant.
    #[inline]
    pub(crate) fn advance(&mut self, leaps: bool) -> u64 {
        let stride = self.strides[usize::from(leaps)];
        let rest = self.at.rest + stride.rest;
        let carry = rest >= self.rate;
        self.at.rest = if carry { rest - self.rate } else { rest };
        let ns = self.at.ns.saturating_add(stride.ns);
        self.at.ns = ns.saturating_add(u64::from(carry));
        self.at.ns
    }

    /// When the arrival of this number is due.
    #[inline]
    pub(crate) fn instant(&self, number: u64) -> u64 {
        divide(number, self.rate).ns
    }

    /// How many numbers are due by then: those below `(at_ns + 1) · rate`.
    pub(crate) fn count_by(&self, at_ns: u64) -> u64 {
        let count = (u128::from(at_ns) + 1).saturating_mul(self.rate).div_ceil(SCALE);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// `number / rate`.
fn divide(number: u64, rate: u128) -> Instant {
    let scaled = u128::from(number) * SCALE;
    Instant { ns: u64::try_from(scaled / rate).unwrap_or(u64::MAX), rest: scaled % rate }
}
