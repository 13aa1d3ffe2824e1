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
    /// Open model for clients on workers: each worker keeps the arrivals of its own clients.
    Parts { arrival: Arrival, seed: u64, turns: Turns, workers: u32, limit: u64, start_ns: u64 },
    /// Open model where this share has none of the group's clients.
    Nobody,
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

/// How a group's clients take turns at its arrivals: over all shares, client `c` has the arrivals
/// congruent to `c` modulo their number, and lives in share `c % of`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) share: Share,
    /// The group's clients over all shares.
    pub(crate) clients: u32,
    /// The first of this share's clients has this slot, the next one the next.
    pub(crate) first_slot: u32,
}

impl Turns {
    /// The arrivals of this share.
    pub(crate) fn part(&self) -> Part {
        Part {
            first: self.share.index.into(),
            step: self.share.of.into(),
            cycle: self.clients.into(),
        }
    }

    /// The arrivals of those clients of this share whose slots are the worker's.
    fn part_of(&self, worker: u32, workers: u32) -> Part {
        let (whole, workers) = (self.part(), u64::from(workers));
        let slots_ahead = u64::from(worker) + workers - u64::from(self.first_slot) % workers;
        let first = whole.first + whole.step * (slots_ahead % workers);
        Part { first, step: whole.step * workers, ..whole }
    }
}

/// What describes a group's numbers, besides its arrival law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    pub(crate) turns: Turns,
    /// Workers that keep parts of their own; none where clients have threads.
    pub(crate) workers: Option<u32>,
    /// Operations over all shares.
    pub(crate) operations: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) start_ns: u64,
}

impl Numbers {
    pub(crate) fn new(arrival: &Arrival, numbering: Numbering) -> Self {
        let Numbering { turns, workers, operations, seed, start_ns } = numbering;
        let limit = operations.unwrap_or(u64::MAX);
        if let Arrival::Closed { think_time_ns } = arrival {
            let limit = operations.map_or(u64::MAX, |all| part_of(all, turns.share));
            let chunk = (limit / (u64::from(turns.clients) * 16)).clamp(1, CHUNK_MAX);
            let think_time_ns = *think_time_ns;
            let pace = Pace { limit, chunk, share: turns.share, think_time_ns };
            return Self::Closed { next: Apart(AtomicU64::new(0)), pace };
        }
        if let Some(workers) = workers {
            return Self::Parts { arrival: arrival.clone(), seed, turns, workers, limit, start_ns };
        }
        match Arrivals::new(arrival, seed, turns.part()) {
            Some(arrivals) => Self::Queue { arrivals: Mutex::new(arrivals), limit, start_ns },
            None => Self::Nobody,
        }
    }

    /// A worker's own end of the numbers; none where no client of the group is the worker's.
    pub(crate) fn source(&self, worker: u32) -> Option<Source<'_>> {
        match self {
            Self::Closed { next, pace } => {
                Some(Source::Closed { next: &next.0, pace: *pace, chunk: Cell::new((0, 0)) })
            }
            Self::Queue { arrivals, limit, start_ns } => {
                Some(Source::Queue { arrivals, limit: *limit, start_ns: *start_ns })
            }
            Self::Parts { arrival, seed, turns, workers, limit, start_ns } => {
                let arrivals = Arrivals::new(arrival, *seed, turns.part_of(worker, *workers))?;
                let arrivals = RefCell::new(arrivals);
                Some(Source::Own { arrivals, limit: *limit, start_ns: *start_ns })
            }
            Self::Nobody => None,
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
    use kvmark_plan::RatePoint;

    use super::*;

    #[test]
    fn shares_of_a_count_add_up_to_it() {
        for all in [0, 1, 7, 1000, 1001] {
            let parts = (0..3).map(|index| part_of(all, Share { index, of: 3 }));
            assert_eq!(parts.sum::<u64>(), all);
        }
    }

    /// The arrivals of a group, and for each worker of each share how many of them it issues and
    /// how many clients it carries, by the slots that `PhaseShared::seats` hands out.
    fn issued(arrivals: u64, clients: u32, workers: u32, of: u32, ahead: u32) -> Vec<(u64, u32)> {
        let mut numbers = Vec::new();
        let mut issued = Vec::new();
        for index in 0..of {
            let own = clients / of + u32::from(index < clients % of);
            let turns = Turns { share: Share { index, of }, clients, first_slot: ahead };
            let rates = vec![RatePoint { at_ns: 0, rate: 1.0 }];
            for worker in 0..workers {
                let seats = (ahead..ahead + own).filter(|slot| slot % workers == worker).count();
                let part = turns.part_of(worker, workers);
                let taken = Arrivals::new(&Arrival::Constant { rates: rates.clone() }, 1, part);
                let taken = taken.into_iter().flatten().map(|due| due.number);
                let taken: Vec<u64> = taken.take_while(|number| *number < arrivals).collect();
                issued.push((taken.len() as u64, seats as u32));
                numbers.extend(taken);
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..arrivals).collect::<Vec<_>>());
        issued
    }

    #[test]
    fn each_arrival_has_one_issuer_and_each_client_the_same_load() {
        for (clients, workers) in (1..12).flat_map(|clients| (1..7).map(move |w| (clients, w))) {
            for (of, ahead) in (1..5).flat_map(|of| (0..7).map(move |ahead| (of, ahead))) {
                let each = 10;
                for (count, seats) in issued(each * u64::from(clients), clients, workers, of, ahead)
                {
                    assert_eq!(count, each * u64::from(seats), "{clients} {workers} {of} {ahead}");
                }
            }
        }
    }

    #[test]
    fn closed_numbers_are_handed_out_once_each() {
        let numbering = Numbering {
            turns: Turns { share: Share { index: 1, of: 3 }, clients: 6, first_slot: 0 },
            workers: None,
            operations: Some(100),
            seed: 0,
            start_ns: 0,
        };
        let numbers = Numbers::new(&Arrival::Closed { think_time_ns: 5 }, numbering);
        let (one, two) = (numbers.source(0).unwrap(), numbers.source(1).unwrap());
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
