//! A Poisson process.

use crate::chance::exponential;
use crate::rates::Rates;
use crate::{Due, Part};

/// Every part follows the whole process and keeps its own arrivals, so that all see the same.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    rates: Rates,
    seed: u64,
    part: Part,
    /// Stands at the part's next arrival.
    cursor: Cursor,
    /// The last one taken.
    taken_ns: u64,
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
        let mut poisson = Self { rates, seed, part, cursor, taken_ns: 0 };
        poisson.skip(part.index);
        poisson
    }

    #[inline]
    pub(crate) fn peek(&self) -> Due {
        self.cursor.due
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.taken_ns = self.cursor.due.at_ns;
        self.skip(self.part.of);
    }

    /// How many numbers are due by then.
    pub(crate) fn count_by(&self, at_ns: u64) -> u64 {
        let mut cursor = self.cursor;
        // Between the last one taken and the cursor lie arrivals of other parts only, and how many
        // of them are due doesn't change what the part has.
        if at_ns < self.taken_ns {
            cursor = Self::first(&self.rates, self.seed);
        }
        while cursor.due.at_ns <= at_ns {
            cursor = self.after(cursor);
        }
        cursor.due.number
    }

    #[inline]
    fn skip(&mut self, arrivals: u64) {
        for _ in 0..arrivals {
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
