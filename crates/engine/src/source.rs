//! Where a client's next operation and its intended start come from.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvmark_plan::{Arrival, Share};
use kvmark_schedule::{Arrivals, Part};
use kvmark_workload::{Apart, Kept};

use crate::numbering::{Numbering, Turn};
use crate::order::Turnstile;
use crate::queue::{Held, Queue};
use crate::tape::{Cursor, Owner, Taken};

/// Most operation numbers that a worker takes from the shared counter at once.
const CHUNK_MAX: u64 = 64;

/// More threads than a run can have.
const THREADS_MAX: u32 = 1 << 31;

/// What the workers share of a group's numbers in a stretch.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Closed model: numbers are taken from counters as clients become free.
    Closed { legs: Vec<Counter>, pace: Pace },
    /// Open model for clients on threads of their own: one queue for all.
    Queue { timetable: Queue<Timetable>, turnstile: Turnstile },
    /// Open model for clients on workers: each worker keeps the arrivals of its own clients.
    Parts { arrival: Arrival, legs: Vec<Numbering>, turns: Turns, workers: u32 },
    /// Open model where this share has none of the group's clients.
    Nobody,
}

/// The numbers of one phase that aren't taken yet.
#[derive(Debug)]
pub(crate) struct Counter {
    next: Apart<AtomicU64>,
    start_ns: u64,
    /// Numbers of this share.
    limit: u64,
    /// How many a worker takes at once.
    chunk: u64,
}

/// What stays the same while numbers are taken in the closed model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Which numbers are this share's; none where all are.
    part: Option<Part>,
    think_time_ns: u64,
}

/// When operations are due.
#[derive(Debug)]
pub(crate) enum Timetable {
    /// By the law of the phases of a stretch, one after the other.
    Law { legs: Vec<(Arrivals, Numbering)>, leg: usize },
    /// As a tape says.
    Tape(Box<Cursor>),
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
    /// Whether the records of a load are dealt out: shares insert equally many, whatever clients
    /// they have.
    pub(crate) loads: bool,
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

    /// The numbers of this share in the closed model, as many for each client as for another: a
    /// share with fewer clients than others would else go on alone at the end.
    pub(crate) fn closed_part(&self) -> Part {
        let cycle = if self.loads { self.share.of } else { self.clients };
        Part { cycle: cycle.into(), ..self.part() }
    }

    /// The arrivals of those clients of this share whose slots are the worker's.
    fn part_of(&self, worker: u32, workers: u32) -> Part {
        let (whole, workers) = (self.part(), u64::from(workers));
        let slots_ahead = u64::from(worker) + workers - u64::from(self.first_slot) % workers;
        let first = whole.first + whole.step * (slots_ahead % workers);
        Part { first, step: whole.step * workers, ..whole }
    }

    /// What of a group's tape is a worker's: a part of what is this share's; none if it carries no
    /// clients of the group.
    pub(crate) fn owner(&self, worker: u32, workers: u32) -> Option<Owner> {
        let Share { index, of } = self.share;
        let clients = clients_of(*self);
        let owner = (worker + workers - self.first_slot % workers) % workers;
        // Shares without a client have nothing of the tape either.
        let (owners, shares) = (clients.min(workers), of.min(self.clients));
        (owner < owners).then_some(Owner { index: index + shares * owner, of: shares * owners })
    }
}

impl Numbers {
    /// The numbers of a stretch; `workers` are those that keep parts of their own, none where
    /// clients have threads.
    pub(crate) fn new(
        arrival: &Arrival,
        turns: Turns,
        workers: Option<u32>,
        legs: Vec<Numbering>,
    ) -> Self {
        if let Arrival::Closed { think_time_ns } = arrival {
            let legs = legs.iter().map(|leg| Counter::new(leg, turns)).collect();
            let part = (turns.share.of > 1).then(|| turns.closed_part());
            let pace = Pace { part, think_time_ns: *think_time_ns };
            return Self::Closed { legs, pace };
        }
        // A thread that has all of a tape for itself needs no lock.
        let taped = matches!(arrival, Arrival::Tape { .. });
        let alone = taped && clients_of(turns) == 1;
        if let Some(workers) = workers.or(alone.then_some(THREADS_MAX)) {
            return Self::Parts { arrival: arrival.clone(), legs, turns, workers };
        }
        match Timetable::new(arrival, &legs, turns.part(), turns.owner(0, 1)) {
            Some(timetable) => {
                let timetable = Queue::new(timetable);
                let clients = if taped { turns.clients as usize } else { 0 };
                Self::Queue { timetable, turnstile: Turnstile::new(clients) }
            }
            None => Self::Nobody,
        }
    }

    /// A worker's own end of the numbers; none where no client of the group is the worker's.
    pub(crate) fn source(&self, worker: u32) -> Option<Source<'_>> {
        match self {
            Self::Closed { legs, pace } => {
                let chunks = legs.iter().map(|_| Cell::new((0, 0))).collect();
                Some(Source::Closed { legs, pace: *pace, chunks })
            }
            Self::Queue { timetable, turnstile } => Some(Source::Queue { timetable, turnstile }),
            Self::Parts { arrival, legs, turns, workers } => {
                let part = turns.part_of(worker, *workers);
                let owner = turns.owner(worker, *workers);
                let timetable = Timetable::new(arrival, legs, part, owner)?;
                Some(Source::Own(RefCell::new(timetable)))
            }
            Self::Nobody => None,
        }
    }
}

impl Counter {
    fn new(numbering: &Numbering, turns: Turns) -> Self {
        let limit = numbering.operations.map_or(u64::MAX, |all| turns.closed_part().of_first(all));
        let chunk = (limit / (u64::from(turns.clients) * 16)).clamp(1, CHUNK_MAX);
        let next = Apart(AtomicU64::new(numbering.done));
        Self { next, start_ns: numbering.start_ns, limit, chunk }
    }

    #[inline(always)]
    fn take(&self, chunk: &Cell<(u64, u64)>) -> Option<u64> {
        let (mut local, mut end) = chunk.get();
        if local == end {
            local = self.next.0.fetch_add(self.chunk, Ordering::Relaxed);
            if local >= self.limit {
                return None;
            }
            end = local.saturating_add(self.chunk).min(self.limit);
        }
        chunk.set((local + 1, end));
        Some(local)
    }
}

impl Timetable {
    fn new(
        arrival: &Arrival,
        legs: &[Numbering],
        part: Part,
        owner: Option<Owner>,
    ) -> Option<Self> {
        if let Arrival::Tape { .. } = arrival {
            return Cursor::new(arrival, legs.first()?, owner?).map(Box::new).map(Self::Tape);
        }
        let arrivals = |leg: &Numbering| Some((Arrivals::new(arrival, leg.seed, part)?, *leg));
        Some(Self::Law { legs: legs.iter().map(arrivals).collect::<Option<_>>()?, leg: 0 })
    }

    #[inline(always)]
    fn take_next(&mut self, ready_ns: u64) -> Option<Turn> {
        let (legs, current) = match self {
            Self::Law { legs, leg } => (legs, leg),
            Self::Tape(cursor) => return cursor.take_next(ready_ns),
        };
        loop {
            let (arrivals, leg) = &mut legs[*current];
            let due = arrivals.peek();
            let intended_ns = leg.start_ns.saturating_add(due.at_ns);
            let is_over = intended_ns >= leg.end_ns
                || leg.operations.is_some_and(|operations| due.number >= operations);
            if !is_over {
                arrivals.take_next();
                return Some(Turn { leg: *current, number: due.number, intended_ns });
            }
            if *current + 1 == legs.len() {
                return None;
            }
            *current += 1;
        }
    }

    /// Gives the operation that was taken last, of a tape.
    #[inline]
    fn give(&self, taken: &mut Taken, kept: &mut Kept) {
        if let Self::Tape(cursor) = self {
            cursor.give(taken, kept);
        }
    }
}

/// The clients of this share.
fn clients_of(turns: Turns) -> u32 {
    let Turns { share: Share { index, of }, clients, .. } = turns;
    clients / of + u32::from(index < clients % of)
}

/// How many of `all` numbers belong to a share.
pub(crate) fn part_of(all: u64, share: Share) -> u64 {
    let of = u64::from(share.of);
    all / of + u64::from(u64::from(share.index) < all % of)
}

/// A worker's end of a group's numbers.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// The chunks are what is left of the numbers taken from the counters.
    Closed {
        legs: &'a [Counter],
        pace: Pace,
        chunks: Vec<Cell<(u64, u64)>>,
    },
    Queue {
        timetable: &'a Queue<Timetable>,
        turnstile: &'a Turnstile,
    },
    Own(RefCell<Timetable>),
}

/// A client's way to the source while it waits for its operation to be due.
///
/// Clients with threads of their own share one schedule: the first holds it and waits for the next
/// arrival, the others wait behind it, so that one thread at a time polls the clock and not all.
#[derive(Debug)]
pub(crate) enum Access<'a> {
    First(Held<'a, Timetable>),
    Any(&'a Source<'a>),
}

impl<'a> Source<'a> {
    /// Whether a client may have to wait for others before it can enter.
    #[inline]
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Self::Queue { .. })
    }

    /// Where clients with threads of their own wait for one another.
    pub(crate) fn turnstile(&self) -> Option<&Turnstile> {
        if let Self::Queue { turnstile, .. } = self { Some(turnstile) } else { None }
    }

    /// The next operation of a tape that nobody else has, and what it is; as [`Access::next`] and
    /// [`Access::give`].
    #[inline]
    pub(crate) fn take(&self, ready_ns: u64, taken: &mut Taken, kept: &mut Kept) -> Option<Turn> {
        let Self::Own(timetable) = self else { return None };
        let Timetable::Tape(cursor) = &mut *timetable.borrow_mut() else { return None };
        let turn = cursor.take_next(ready_ns)?;
        cursor.give(taken, kept);
        Some(turn)
    }

    /// The way to the next operation; none while another client has it.
    #[inline]
    pub(crate) fn try_enter(&'a self) -> Option<Access<'a>> {
        match self {
            Self::Queue { timetable, .. } => timetable.try_enter().map(Access::First),
            _ => Some(Access::Any(self)),
        }
    }

    /// The same as soon as no other client has it; none if one has it for longer than this.
    pub(crate) fn enter_within(&'a self, patience: Duration) -> Option<Access<'a>> {
        match self {
            Self::Queue { timetable, .. } => timetable.enter_within(patience).map(Access::First),
            _ => Some(Access::Any(self)),
        }
    }

    /// [`Access::next`] where no client waits for another. Always inlined, so that a turn stays in
    /// registers.
    #[inline(always)]
    pub(crate) fn next(&self, ready_ns: u64) -> Option<Turn> {
        match self {
            Self::Closed { legs, pace, chunks } => {
                let intended_ns = ready_ns + pace.think_time_ns;
                let leg = legs.iter().rposition(|leg| leg.start_ns <= intended_ns).unwrap_or(0);
                let local = legs[leg].take(&chunks[leg])?;
                let number = pace.part.map_or(local, |part| part.nth(local));
                Some(Turn { leg, number, intended_ns })
            }
            Self::Own(timetable) => timetable.borrow_mut().take_next(ready_ns),
            Self::Queue { .. } => None,
        }
    }
}

impl Access<'_> {
    /// The next operation for a client that became free at `ready_ns`; none when the numbers are
    /// used up.
    #[inline(always)]
    pub(crate) fn next(&mut self, ready_ns: u64) -> Option<Turn> {
        match self {
            Self::Any(source) => source.next(ready_ns),
            Self::First(timetable) => timetable.take_next(ready_ns),
        }
    }

    /// Gives what the operation is whose turn came last, where a tape says it, and what was kept of
    /// it.
    #[inline]
    pub(crate) fn give(&self, taken: &mut Taken, kept: &mut Kept) {
        match self {
            Self::Any(Source::Own(timetable)) => timetable.borrow().give(taken, kept),
            Self::Any(_) => {}
            Self::First(timetable) => timetable.give(taken, kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use kvmark_plan::RatePoint;

    use super::*;

    fn next(source: &Source<'_>, ready_ns: u64) -> Option<Turn> {
        source.try_enter().unwrap().next(ready_ns)
    }

    #[test]
    fn shares_of_a_count_add_up_to_it() {
        for all in [0, 1, 7, 1000, 1001] {
            let parts = (0..3).map(|index| part_of(all, Share { index, of: 3 }));
            assert_eq!(parts.sum::<u64>(), all);
        }
    }

    /// For each worker of each share, how many of a group's arrivals it issues and how many clients
    /// it carries, by the slots that [`crate::phase::Stretch::seats`] hands out.
    fn issued(arrivals: u64, clients: u32, workers: u32, of: u32, ahead: u32) -> Vec<(u64, u32)> {
        let mut numbers = Vec::new();
        let mut issued = Vec::new();
        for index in 0..of {
            let own = clients / of + u32::from(index < clients % of);
            let turns =
                Turns { share: Share { index, of }, clients, first_slot: ahead, loads: false };
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

    /// The numbers that each share takes of a hundred in the closed model.
    fn closed_numbers(clients: u32, of: u32, loads: bool) -> Vec<Vec<u64>> {
        let leg =
            Numbering { operations: Some(100), done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };
        let closed = Arrival::Closed { think_time_ns: 0 };
        let share = |index| {
            let turns = Turns { share: Share { index, of }, clients, first_slot: 0, loads };
            let numbers = Numbers::new(&closed, turns, None, vec![leg]);
            let source = numbers.source(0).unwrap();
            std::iter::from_fn(|| Some(next(&source, 0)?.number)).collect()
        };
        (0..of).map(share).collect()
    }

    #[test]
    fn shares_take_closed_numbers_by_their_clients() {
        for (clients, of) in (1..12).flat_map(|clients| (1..=clients).map(move |of| (clients, of)))
        {
            let shares = closed_numbers(clients, of, false);
            let each: Vec<_> = shares.iter().map(Vec::len).collect();
            for (index, count) in (0..).zip(&each) {
                let own = (clients / of + u32::from(index < clients % of)) as usize;
                // To the last turn of all, each client has as many.
                let fair = 100 / clients as usize;
                assert!((own * fair..=own * (fair + 1)).contains(count), "{clients} {of} {each:?}");
            }
            let mut all = shares.concat();
            all.sort_unstable();
            assert_eq!(all, (0..100).collect::<Vec<_>>(), "{clients} {of}");
        }
    }

    #[test]
    fn shares_load_equally_many_records() {
        let shares = closed_numbers(5, 4, true);
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [25; 4]);
        assert_eq!(shares[3], (0..25).map(|local| local * 4 + 3).collect::<Vec<_>>());
    }

    #[test]
    fn closed_numbers_are_handed_out_once_each() {
        let share = Share { index: 1, of: 3 };
        let turns = Turns { share, clients: 6, first_slot: 0, loads: false };
        let leg =
            Numbering { operations: Some(100), done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };
        let closed = Arrival::Closed { think_time_ns: 5 };
        let numbers = Numbers::new(&closed, turns, None, vec![leg]);
        let (one, two) = (numbers.source(0).unwrap(), numbers.source(1).unwrap());
        let mut seen = Vec::new();
        while let Some(turn) = if seen.len() % 3 == 0 { next(&one, 7) } else { next(&two, 7) } {
            assert_eq!(turn.intended_ns, 12);
            seen.push(turn.number);
        }
        while let Some(turn) = next(&one, 0).or_else(|| next(&two, 0)) {
            seen.push(turn.number);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..33).map(|local| local * 3 + 1).collect::<Vec<_>>());
    }

    #[test]
    fn a_turn_belongs_to_the_phase_in_which_it_is_due() {
        let share = Share { index: 0, of: 1 };
        let turns = Turns { share, clients: 1, first_slot: 0, loads: false };
        let warm = Numbering { operations: None, done: 0, seed: 0, start_ns: 100, end_ns: 130 };
        let measured = Numbering { start_ns: 130, end_ns: u64::MAX, operations: Some(2), ..warm };
        let rates = vec![RatePoint { at_ns: 0, rate: 1e8 }];
        let constant = Arrival::Constant { rates };
        for workers in [None, Some(1)] {
            let numbers = Numbers::new(&constant, turns, workers, vec![warm, measured]);
            let source = numbers.source(0).unwrap();
            let due = std::iter::from_fn(|| next(&source, 0));
            let due: Vec<_> = due.map(|turn| (turn.leg, turn.number, turn.intended_ns)).collect();
            let warm = [(0, 0, 100), (0, 1, 110), (0, 2, 120)];
            assert_eq!(due, [&warm[..], &[(1, 0, 130), (1, 1, 140)]].concat());
        }
        let closed = Arrival::Closed { think_time_ns: 5 };
        let numbers = Numbers::new(&closed, turns, None, vec![warm, measured]);
        let source = numbers.source(0).unwrap();
        let of = |ready_ns| next(&source, ready_ns).map(|turn| (turn.leg, turn.number));
        // Clients don't come in the order of their instants.
        let ready = [100, 125, 124, 200, 300].map(of);
        assert_eq!(ready, [Some((0, 0)), Some((1, 0)), Some((0, 1)), Some((1, 1)), None]);
    }
}
