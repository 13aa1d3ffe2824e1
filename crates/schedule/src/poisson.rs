//! A Poisson process.

use crate::chance::exponential;
use crate::due::Due;
use crate::part::Part;
use crate::rates::Rates;
use crate::turns::Turns;

/// Every part follows the whole process and keeps its own arrivals, so that all see the same.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    rates: Rates,
    seed: u64,
    turns: Turns,
    /// Stands at the part's next arrival.
    cursor: Cursor,
    /// Stands at the first arrival, of any part, after the time that was asked for last.
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
    pub(crate) fn new(rates: Rates, seed: u64, part: Part) -> Self {
        let cursor = Self::first(&rates, seed);
        let turns = Turns::new(part);
        let mut poisson = Self { rates, seed, turns, cursor, counted: cursor, counted_ns: 0 };
        poisson.follow();
        poisson
    }

    #[inline]
    pub(crate) fn peek(&self) -> Due {
        self.cursor.due
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.turns.advance();
        self.follow();
    }

    /// How many numbers are due by then.
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

    /// Brings the cursor to the part's number.
    #[inline]
    fn follow(&mut self) {
        while self.cursor.due.number < self.turns.number {
            self.cursor = self.after(self.cursor);
        }
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

#[cfg(test)]
mod tests {
    use kvmark_plan::RatePoint;

    use super::*;

    #[test]
    fn counting_goes_on_where_it_stood() {
        let rates = Rates::new(&[RatePoint { at_ns: 0, rate: 100_000.0 }]);
        let mut poisson = Poisson::new(rates, 1, Part::WHOLE);
        for interval in 1..=50 {
            let before = poisson.counted.due.number;
            let due = poisson.count_by(interval * 100_000_000);
            assert_eq!(poisson.counted.due.number, due);
            assert!((9_000..11_000).contains(&(due - before)), "{due} {before}");
        }
    }
}
