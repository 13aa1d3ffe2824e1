//! A group's arrivals, whatever their process is.

use kvmark_plan::Arrival;

use crate::due::Due;
use crate::even::Even;
use crate::part::Part;
use crate::poisson::Poisson;
use crate::ramped::Ramped;
use crate::rates::Rates;

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
    /// when others end, of a tape, which says when they are, and for an empty part. Use
    /// [`crate::seed_of`] for the seed.
    #[must_use]
    pub fn new(arrival: &Arrival, seed: u64, part: Part) -> Option<Self> {
        if part.is_empty() {
            return None;
        }
        let process = match arrival {
            Arrival::Closed { .. } | Arrival::Tape { .. } => return None,
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
