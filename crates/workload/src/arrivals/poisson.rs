//! A Poisson process.

use kvmark_plan::{GOLDEN, split_mix};

use super::rates::{Due, Rates};

/// Each partition follows the whole process and keeps its own arrivals, so that all see the same
/// process.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    rates: Rates,
    seed: u64,
    /// The partition's next arrival.
    cursor: Cursor,
    /// The first arrival, of any partition, after the last queried time.
    counted: Cursor,
    counted_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    due: Due,
    /// The integral of the rate at the arrival.
    reached: f64,
    piece: usize,
}

impl Poisson {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        let cursor = Self::first(&rates, seed);
        Self { rates, seed, cursor, counted: cursor, counted_ns: 0 }
    }

    /// Number of arrivals due by this time.
    pub(crate) fn count_by(&mut self, at_ns: u64) -> u64 {
        if at_ns < self.counted_ns {
            self.counted = Self::first(&self.rates, self.seed);
        }
        while self.counted.due.at_ns <= at_ns {
            self.counted = self.after(self.counted);
        }
        self.counted_ns = at_ns;
        self.counted.due.number
    }

    /// When the arrival of this number is due. Numbers must not decrease.
    #[inline]
    pub(crate) fn instant(&mut self, number: u64) -> u64 {
        while self.cursor.due.number < number {
            self.cursor = self.after(self.cursor);
        }
        self.cursor.due.at_ns
    }

    fn first(rates: &Rates, seed: u64) -> Cursor {
        let reached = exponential(seed, 0);
        let mut piece = 0;
        let at_ns = rates.instant(reached, &mut piece);
        Cursor { due: Due { number: 0, at_ns }, reached, piece }
    }

    #[inline]
    fn after(&self, cursor: Cursor) -> Cursor {
        let number = cursor.due.number + 1;
        let reached = cursor.reached + exponential(self.seed, number);
        let mut piece = cursor.piece;
        // Two arrivals may be so close that rounding swaps them.
        let at_ns = self.rates.instant(reached, &mut piece).max(cursor.due.at_ns);
        Cursor { due: Due { number, at_ns }, reached, piece }
    }
}

/// Draw number `number` of the exponential law with mean 1.
#[inline]
fn exponential(seed: u64, number: u64) -> f64 {
    let noise = split_mix(seed.wrapping_add(number.wrapping_mul(GOLDEN)));
    // 53 bits, above 0 and up to 1.
    let uniform = ((noise >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use kvmark_plan::RatePoint;

    use super::*;

    #[test]
    fn counting_continues_from_the_last_query() {
        let rates = Rates::new(&[RatePoint { at_ns: 0, rate: 100_000.0 }]);
        let mut poisson = Poisson::new(rates, 1);
        for interval in 1..=50 {
            let before = poisson.counted.due.number;
            let due = poisson.count_by(interval * 100_000_000);
            assert_eq!(poisson.counted.due.number, due);
            assert!((9_000..11_000).contains(&(due - before)), "{due} {before}");
        }
    }
}
