//! Arrival processes: when each operation of an open model is due.
//!
//! [`Arrivals`] yields a group's intended starts in one phase, in order, without end. They depend
//! on the arrival process and a seed only. Nothing here reads a clock, so a late engine skips no
//! arrival. Arrival i happens where the integral of the rate reaches u(i): u(i) = i for a constant
//! process, the i-th arrival of a unit process for a Poisson process (time change: D. J. Daley and
//! D. Vere-Jones, "An Introduction to the Theory of Point Processes", 7.4).

mod even;
mod poisson;
mod rates;

use kvmark_plan::{Arrival, GOLDEN, split_mix};

use crate::partition::{NumberPartition, PartitionCursor};
use even::Even;
use poisson::Poisson;
pub use rates::Due;
use rates::{Ramped, Rates};

/// The seed of one group's arrivals in one phase, from the plan's schedule seed and both indices.
#[must_use]
pub const fn seed_of(schedule_seed: u64, phase: u32, group: u32) -> u64 {
    let place = ((phase as u64) << 32) | group as u64;
    split_mix(split_mix(schedule_seed) ^ split_mix(place.wrapping_add(GOLDEN)))
}

/// A partition of a group's arrivals in one phase, in the order of their intended starts, without
/// end.
#[derive(Clone, Debug)]
pub struct Arrivals {
    numbers: PartitionCursor,
    /// When the next arrival is due.
    at_ns: u64,
    process: Process,
}

#[derive(Clone, Debug)]
enum Process {
    Even(Even),
    Ramped(Ramped),
    Poisson(Poisson),
}

impl Arrivals {
    /// The arrivals of a checked plan's process, with a seed from [`seed_of`]. `None` in the closed
    /// model, for a tape, which has its own instants, and for an empty partition.
    #[must_use]
    pub fn new(arrival: &Arrival, seed: u64, partition: NumberPartition) -> Option<Self> {
        if partition.is_empty() {
            return None;
        }
        let numbers = PartitionCursor::new(partition);
        let mut process = match arrival {
            Arrival::Closed { .. } | Arrival::Tape { .. } => return None,
            Arrival::Constant { rates } => {
                let first = rates.first()?.rate;
                if rates.iter().all(|point| point.rate == first) {
                    Process::Even(Even::new(first, &numbers))
                } else {
                    Process::Ramped(Ramped { rates: Rates::new(rates), piece: 0 })
                }
            }
            Arrival::Poisson { rates } => Process::Poisson(Poisson::new(Rates::new(rates), seed)),
        };
        let at_ns = process.instant(numbers.number);
        Some(Self { numbers, at_ns, process })
    }

    /// The next arrival, which isn't taken.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Due {
        Due { number: self.numbers.number, at_ns: self.at_ns }
    }

    /// When the arrival of this number, of any partition, is due. Numbers must not decrease. The
    /// iterator can't be used afterwards.
    #[inline]
    #[must_use]
    pub fn instant(&mut self, number: u64) -> u64 {
        self.process.instant(number)
    }

    /// How many arrivals of all partitions, taken or not, are due by this time of the phase.
    /// [`NumberPartition::of_first`] returns this partition's part of them.
    ///
    /// In closed form for a constant process. A Poisson process continues to count from the last
    /// queried time, block by block; from the start for an earlier time.
    #[must_use]
    pub fn due_by(&mut self, at_ns: u64) -> u64 {
        match &mut self.process {
            Process::Even(even) => even.count_by(at_ns),
            Process::Ramped(ramped) => ramped.count_by(at_ns),
            Process::Poisson(poisson) => poisson.count_by(at_ns),
        }
    }
}

impl Process {
    #[inline]
    fn instant(&mut self, number: u64) -> u64 {
        match self {
            Self::Even(even) => even.instant(number),
            Self::Ramped(ramped) => ramped.instant(number),
            Self::Poisson(poisson) => poisson.instant(number),
        }
    }
}

impl Iterator for Arrivals {
    type Item = Due;

    #[inline]
    fn next(&mut self) -> Option<Due> {
        let due = self.peek();
        let leaps = self.numbers.advance();
        self.at_ns = match &mut self.process {
            Process::Even(even) => even.advance(leaps),
            process => process.instant(self.numbers.number),
        };
        Some(due)
    }
}
