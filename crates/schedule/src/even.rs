//! A constant process at one rate, in whole numbers: exact after any number of arrivals.

use crate::{Due, Part};

/// Nanoseconds in a second, times the unit of [`Even::rate`].
const SCALE: u128 = 1_000_000_000 * 1_000_000_000;

/// Arrival i is due at `floor(i / rate)`.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    /// Arrivals per second, in units of 10^-9.
    rate: u128,
    next: Due,
    /// What the floor of the next intended start left over, in units of 1 / rate.
    rest: u128,
    of: u64,
    step_ns: u64,
    step_rest: u128,
}

impl Even {
    pub(crate) fn new(rate: f64, part: Part) -> Self {
        let rate = ((rate * 1e9).round() as u128).max(1);
        let (at_ns, rest) = divide(part.index, rate);
        let (step_ns, step_rest) = divide(part.of, rate);
        let next = Due { number: part.index, at_ns };
        Self { rate, next, rest, of: part.of, step_ns, step_rest }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Due {
        self.next
    }

    /// Adds a step and carries, so that nothing is divided.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let rest = self.rest + self.step_rest;
        let carry = rest >= self.rate;
        self.rest = if carry { rest - self.rate } else { rest };
        self.next.number += self.of;
        let at_ns = self.next.at_ns.saturating_add(self.step_ns);
        self.next.at_ns = at_ns.saturating_add(u64::from(carry));
    }

    /// How many numbers are due by then: those below `(at_ns + 1) · rate`.
    pub(crate) fn count_by(&self, at_ns: u64) -> u64 {
        let count = (u128::from(at_ns) + 1).saturating_mul(self.rate).div_ceil(SCALE);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// `number / rate` in whole nanoseconds, and the remainder.
fn divide(number: u64, rate: u128) -> (u64, u128) {
    let scaled = u128::from(number) * SCALE;
    (u64::try_from(scaled / rate).unwrap_or(u64::MAX), scaled % rate)
}
