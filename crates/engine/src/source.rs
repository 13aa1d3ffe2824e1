//! Where a client's next operation and its intended start come from.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvmark_plan::{Arrival, Share};
use kvmark_schedule::{Arrivals, Part};

use crate::apart::Apart;

/// Most operation numbers that a worker takes from the shared counter at once.
const CHUNK_MAX: u64 = 64;

/// The next operation of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Number in the group's stream.
    pub(crate) number: u64,
    /// When it is due.
    pub(crate) intended_ns: u64,
}

/// What the workers share of a group's numbers in one phase.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Closed model: numbers are taken from a counter as clients become free.
    Closed { next: Apart<AtomicU64>, pace: Pace },
    /// Open model for clients on threads of their own: one queue for all.
    Queue { arrivals: Mutex<Arrivals>, limit: u64, start_ns: u64 },
    /// Open model for clients on workers: each worker keeps its part of the arrivals.
    Parts { arrival: Arrival, seed: u64, share: Share, workers: u32, limit: u64, start_ns: u64 },
}

/// What stays the same while numbers are taken in the closed model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Numbers of this share.
    limit: u64,
    /// How many a worker takes from the counter at once.
    chunk: u64,
    share: Share,
    think_time_ns: u64,
}

/// What describes a group's numbers, besides its arrival law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    pub(crate) share: Share,
    /// Workers that keep parts of their own; none where clients have threads.
    pub(crate) workers: Option<u32>,
    pub(crate) clients: u32,
    /// Operations over all shares.
    pub(crate) operations: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) start_ns: u64,
}

impl Numbers {
    pub(crate) fn new(arrival: &Arrival, numbering: Numbering) -> Self {
        let Numbering { share, workers, clients, operations, seed, start_ns } = numbering;
        let limit = operations.unwrap_or(u64::MAX);
        if let Arrival::Closed { think_time_ns } = arrival {
            let limit = operations.map_or(u64::MAX, |all| part_of(all, share));
            let chunk = (limit / (u64::from(clients) * 16)).clamp(1, CHUNK_MAX);
            let think_time_ns = *think_time_ns;
            let pace = Pace { limit, chunk, share, think_time_ns };
            return Self::Closed { next: Apart(AtomicU64::new(0)), pace };
        }
        if let Some(workers) = workers {
            return Self::Parts { arrival: arrival.clone(), seed, share, workers, limit, start_ns };
        }
        let part = Part { index: share.index.into(), of: share.of.into() };
        let arrivals = Arrivals::new(arrival, seed, part).expect("the model is open");
        Self::Queue { arrivals: Mutex::new(arrivals), limit, start_ns }
    }

    /// A worker's own end of the numbers.
    pub(crate) fn source(&self, worker: u32) -> Source<'_> {
        match self {
            Self::Closed { next, pace } => {
                Source::Closed { next: &next.0, pace: *pace, chunk: Cell::new((0, 0)) }
            }
            Self::Queue { arrivals, limit, start_ns } => {
                Source::Queue { arrivals, limit: *limit, start_ns: *start_ns }
            }
            Self::Parts { arrival, seed, share, workers, limit, start_ns } => {
                let (index, of) = (u64::from(share.index), u64::from(share.of));
                let part =
                    Part { index: index + of * u64::from(worker), of: of * u64::from(*workers) };
                let arrivals = Arrivals::new(arrival, *seed, part).expect("the model is open");
                let arrivals = RefCell::new(arrivals);
                Source::Own { arrivals, limit: *limit, start_ns: *start_ns }
            }
        }
    }
}

/// How many of `all` numbers belong to a share.
pub(crate) fn part_of(all: u64, share: Share) -> u64 {
    let of = u64::from(share.of);
    all / of + u64::from(u64::from(share.index) < all % of)
}

/// A worker's end of a group's numbers.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// The chunk is the rest of the numbers taken from the counter.
    Closed {
        next: &'a AtomicU64,
        pace: Pace,
        chunk: Cell<(u64, u64)>,
    },
    Queue {
        arrivals: &'a Mutex<Arrivals>,
        limit: u64,
        start_ns: u64,
    },
    Own {
        arrivals: RefCell<Arrivals>,
        limit: u64,
        start_ns: u64,
    },
}

/// A client's place at the source while it waits for its operation to be due.
///
/// Clients with threads of their own share one schedule: the first holds it and waits for the next
/// arrival, the others wait behind it, so that one thread at a time polls the clock and not all.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    First { arrivals: MutexGuard<'a, Arrivals>, limit: u64, start_ns: u64 },
    Any(&'a Source<'a>),
}

impl<'a> Source<'a> {
    /// Whether [`Self::enter`] can keep a client waiting.
    #[inline]
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Self::Queue { .. })
    }

    #[inline]
    pub(crate) fn enter(&'a self) -> Place<'a> {
        if let Self::Queue { arrivals, limit, start_ns } = self {
            let arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            return Place::First { arrivals, limit: *limit, start_ns: *start_ns };
        }
        Place::Any(self)
    }
}

impl Place<'_> {
    /// The next operation for a client that became free at `ready_ns`; none when the numbers are
    /// used up. Always inlined, so that a turn stays in registers.
    #[inline(always)]
    pub(crate) fn next(&mut self, ready_ns: u64) -> Option<Turn> {
        match self {
            Self::Any(Source::Closed { next, pace, chunk }) => {
                pace.next_turn(next, chunk, ready_ns)
            }
            Self::Any(Source::Own { arrivals, limit, start_ns }) => {
                due(&mut arrivals.borrow_mut(), *limit, *start_ns)
            }
            Self::Any(Source::Queue { .. }) => None,
            Self::First { arrivals, limit, start_ns } => due(arrivals, *limit, *start_ns),
        }
    }
}

impl Pace {
    #[inline(always)]
    fn next_turn(&self, next: &AtomicU64, chunk: &Cell<(u64, u64)>, ready_ns: u64) -> Option<Turn> {
        let (mut local, mut end) = chunk.get();
        if local == end {
            local = next.fetch_add(self.chunk, Ordering::Relaxed);
            if local >= self.limit {
                return None;
            }
            end = local.saturating_add(self.chunk).min(self.limit);
        }
        chunk.set((local + 1, end));
        let number = local * u64::from(self.share.of) + u64::from(self.share.index);
        Some(Turn { number, intended_ns: ready_ns + self.think_time_ns })
    }
}

#[inline(always)]
fn due(arrivals: &mut Arrivals, limit: u64, start_ns: u64) -> Option<Turn> {
    let due = arrivals.take_next();
    let intended_ns = start_ns.saturating_add(due.at_ns);
    (due.number < limit).then_some(Turn { number: due.number, intended_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_count_add_up_to_it() {
        for all in [0, 1, 7, 1000, 1001] {
            let parts = (0..3).map(|index| part_of(all, Share { index, of: 3 }));
            assert_eq!(parts.sum::<u64>(), all);
        }
    }

    #[test]
    fn closed_numbers_are_handed_out_once_each() {
        let numbering = Numbering {
            share: Share { index: 1, of: 3 },
            workers: None,
            clients: 2,
            operations: Some(100),
            seed: 0,
            start_ns: 0,
        };
        let numbers = Numbers::new(&Arrival::Closed { think_time_ns: 5 }, numbering);
        let (one, two) = (numbers.source(0), numbers.source(1));
        let mut seen = Vec::new();
        while let Some(turn) = if seen.len() % 3 == 0 { &one } else { &two }.enter().next(7) {
            assert_eq!(turn.intended_ns, 12);
            seen.push(turn.number);
        }
        while let Some(turn) = one.enter().next(0).or_else(|| two.enter().next(0)) {
            seen.push(turn.number);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..33).map(|local| local * 3 + 1).collect::<Vec<_>>());
    }
}
