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
mod turns;

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

/// The arrivals that some of a group's clients take, in turns over all clients of all shares:
/// numbers that modulo `cycle` are `first`, `first + step` and so on, below `cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of these clients.
    pub first: u64,
    /// From one of them to the next, at least 1.
    pub step: u64,
    /// How many clients take turns, at least 1.
    pub cycle: u64,
}

impl Part {
    /// All of them.
    pub const WHOLE: Self = Self { first: 0, step: 1, cycle: 1 };

    /// Whether nobody is among these clients, so that no number belongs to the part.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.first >= self.cycle
    }

    /// How many of the first `count` numbers belong to the part.
    #[must_use]
    pub const fn of_first(self, count: u64) -> u64 {
        let whole = (count / self.cycle).saturating_mul(self.turns_below(self.cycle));
        whole.saturating_add(self.turns_below(count % self.cycle))
    }

    /// How many turns of one cycle it has before a place of it.
    const fn turns_below(self, place: u64) -> u64 {
        if place > self.first { (place - self.first - 1) / self.step + 1 } else { 0 }
    }
}

/// A part of a group's arrivals in one phase, in the order of their intended starts; never ends.
#[derive(Clone, Debug)]
pub struct Arrivals {
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
    /// when others end, and for an empty part. Use [`seed_of`] for the seed.
    #[must_use]
    pub fn new(arrival: &Arrival, seed: u64, part: Part) -> Option<Self> {
        if part.is_empty() {
            return None;
        }
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
        Some(Self { process })
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

    /// How many of all parts' arrivals, taken or not, are due at this time of the phase or before;
    /// [`Part::of_first`] says how many of them are the part's.
    ///
    /// In closed form for a constant process. A Poisson process is counted on from the time asked
    /// for last, which costs as much as taking the arrivals in between; from its begin for an
    /// earlier time.
    #[must_use]
    pub fn due_by(&mut self, at_ns: u64) -> u64 {
        match &mut self.process {
            Process::Even(even) => even.count_by(at_ns),
            Process::Ramped(ramped) => ramped.count_by(at_ns),
            Process::Poisson(poisson) => poisson.count_by(at_ns),
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
