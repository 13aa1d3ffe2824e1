//! A constant process whose rate moves.

use crate::due::Due;
use crate::part::Part;
use crate::rates::Rates;
use crate::turns::Turns;

/// Arrival i is due where the integral of the rate passes i, computed anew for each i.
#[derive(Clone, Debug)]
pub(crate) struct Ramped {
    rates: Rates,
    piece: usize,
    turns: Turns,
    at_ns: u64,
}

impl Ramped {
    pub(crate) fn new(rates: Rates, part: Part) -> Self {
        let turns = Turns::new(part);
        let mut piece = 0;
        let at_ns = rates.instant(turns.number as f64, &mut piece);
        Self { rates, piece, turns, at_ns }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Due {
        Due { number: self.turns.number, at_ns: self.at_ns }
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.turns.advance();
        self.at_ns = self.rates.instant(self.turns.number as f64, &mut self.piece);
    }

    /// How many numbers are due by then. The integral says it but for rounding.
    pub(crate) fn count_by(&self, at_ns: u64) -> u64 {
        let due = |number: u64| self.rates.instant(number as f64, &mut 0) <= at_ns;
        let mut count = self.rates.integral(at_ns) as u64;
        while count > 0 && !due(count - 1) {
            count -= 1;
        }
        while due(count) {
            count += 1;
        }
        count
    }
}
