//! Arrival processes: when each operation of an open model is due.
//!
//! [`Arrivals`] yields a group's intended starts in one phase, in order, forever. They follow from
//! the arrival process and a seed alone: nothing here knows what time it is, so nothing is skipped
//! when the engine is late. Arrival i happens where the integral of the rate reaches u(i): u(i) = i
//! for a constant process, the sum of i + 1 draws from the exponential law for a Poisson process
//! (time change of a unit process: D. J. Daley and D. Vere-Jones, "An Introduction to the Theory of
//! Point Processes", 7.4).

mod chance;
mod even;
mod poisson;
mod ramped;
mod rates;

use kvmark_plan::Arrival;

pub use chance::seed_of;

use even::Even;
use poisson::Poisson;
use ramped::Ramped;
use rates::Rates;

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Its number among the group's arrivals over all shares, from 0.
    pub number: u64,
    /// The intended start, since the phase began.
    pub at_ns: u64,
}

/// The arrivals that one worker takes: numbers congruent to `index` modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0, below `of`.
    pub index: u64,
    /// How many parts there are, over all workers of all shares.
    pub of: u64,
}

impl Part {
    /// All of them.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// How many of the first `count` numbers belong to the part.
    const fn of_first(self, count: u64) -> u64 {
        if count > self.index { (count - self.index - 1) / self.of + 1 } else { 0 }
    }
}

/// A part of a group's arrivals in one phase, in the order of their intended starts; never ends.
#[derive(Clone, Debug)]
pub struct Arrivals {
    part: Part,
    process: Process,
}

#[derive(Clone, Debug)]
enum Process {
    Even(Even),
    Ramped(Ramped),
    Poisson(Poisson),
}

impl Arrivals {
    /// The arrivals of a checked plan's process; none in the closed model, where operations are due
    /// when others end. Use [`seed_of`] for the seed.
    #[must_use]
    pub fn new(arrival: &Arrival, seed: u64, part: Part) -> Option<Self> {
        let process = match arrival {
            Arrival::Closed { .. } => return None,
            Arrival::Constant { rates } => {
                let first = rates.first()?.rate;
                if rates.iter().all(|point| point.rate == first) {
                    Process::Even(Even::new(first, part))
                } else {
                    Process::Ramped(Ramped::new(Rates::new(rates), part))
                }
            }
            Arrival::Poisson { rates } => {
                Process::Poisson(Poisson::new(Rates::new(rates), seed, part))
            }
        };
        Some(Self { part, process })
    }

    /// The next arrival, which stays.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Due {
        match &self.process {
            Process::Even(even) => even.peek(),
            Process::Ramped(ramped) => ramped.peek(),
            Process::Poisson(poisson) => poisson.peek(),
        }
    }

    /// Takes the next arrival.
    #[inline]
    pub fn take_next(&mut self) -> Due {
        let due = self.peek();
        match &mut self.process {
            Process::Even(even) => even.advance(),
            Process::Ramped(ramped) => ramped.advance(),
            Process::Poisson(poisson) => poisson.advance(),
        }
        due
    }

    /// How many of the part's arrivals, taken or not, are due at this time of the phase or before.
    ///
    /// In closed form for a constant process. A Poisson process is followed from where it stands,
    /// which costs as much as taking the arrivals in between; from its begin for a time before the
    /// last one taken.
    #[must_use]
    pub fn due_by(&self, at_ns: u64) -> u64 {
        match &self.process {
            Process::Even(even) => self.part.of_first(even.count_by(at_ns)),
            Process::Ramped(ramped) => self.part.of_first(ramped.count_by(at_ns)),
            Process::Poisson(poisson) => self.part.of_first(poisson.count_by(at_ns)),
        }
    }
}

impl Iterator for Arrivals {
    type Item = Due;

    #[inline]
    fn next(&mut self) -> Option<Due> {
        Some(self.take_next())
    }
}
