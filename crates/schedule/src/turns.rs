//! The numbers of a part, one after the other.

use crate::part::Part;

/// Stands at a number of a part that isn't empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    part: Part,
    pub(crate) number: u64,
    /// The number's place in the cycle.
    place: u64,
    /// From the last number of a cycle to the first of the next.
    leap: u64,
}

impl Turns {
    pub(crate) const fn new(part: Part) -> Self {
        let Part { first, step, cycle } = part;
        let last = first + (cycle - first - 1) / step * step;
        Self { part, number: first, place: first, leap: cycle - last + first }
    }

    pub(crate) const fn step(&self) -> u64 {
        self.part.step
    }

    pub(crate) const fn leap(&self) -> u64 {
        self.leap
    }

    /// Goes to the next number; whether that was a leap and no step.
    #[inline]
    pub(crate) const fn advance(&mut self) -> bool {
        let place = self.place + self.part.step;
        let leaps = place >= self.part.cycle;
        self.place = if leaps { self.part.first } else { place };
        self.number += if leaps { self.leap } else { self.part.step };
        leaps
    }
}
