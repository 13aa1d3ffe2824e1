//! The source of a client's next operation and its intended start.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_plan::{Arrival, Share};
use kvmark_workload::{Arrivals, CachePadded, NumberPartition, TapedContent};

use crate::claims::SharedClaims;
use crate::queue::HandoffLock;
use crate::scheduled::{PhaseNumbers, ScheduledOp};
use crate::tape::{Cursor, TapedOp};

/// Most operation numbers that a worker takes from the shared counter at once.
const CHUNK_MAX: u64 = 64;

/// More threads than a run can have.
const THREADS_MAX: u32 = 1 << 31;

/// The numbers of a group in a phase sequence, shared by the workers.
#[derive(Debug)]
pub(crate) enum OperationNumbers {
    /// Closed model: clients take numbers from counters when they become free.
    Closed { phases: Vec<Counter>, partition: Option<NumberPartition>, think_time_ns: u64 },
    /// Open model for clients with threads: each takes the next arrival when it is free. The
    /// arrivals of each phase, the index of its next one, and the lock of [`SharedArrivals`].
    Indexed {
        phases: Vec<(Arrivals, PhaseNumbers)>,
        next: Vec<CachePadded<AtomicU64>>,
        partition: NumberPartition,
        polling: HandoffLock<()>,
    },
    /// A tape for clients with threads: one queue for all.
    Shared { schedule: HandoffLock<Schedule>, claims: SharedClaims },
    /// Open model for clients on workers: each worker has the arrivals of its clients.
    Parts { arrival: Arrival, phases: Vec<PhaseNumbers>, turns: RoundRobin, workers: u32 },
    /// Open model without a client of the group in this share.
    Nobody,
}

/// The numbers of one phase that aren't taken yet.
#[derive(Debug)]
pub(crate) struct Counter {
    next: CachePadded<AtomicU64>,
    start_ns: u64,
    /// Numbers of this share.
    limit: u64,
    /// Numbers that a worker takes at once.
    chunk: u64,
}

/// When operations are due.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// The arrival processes of the sequence's phases, in order.
    Law { phases: Vec<(Arrivals, PhaseNumbers)>, phase: usize },
    /// The instants on a tape.
    Tape(Box<Cursor>),
}

/// Round-robin distribution of a group's arrivals over its clients: client `c` of all shares has
/// the arrivals congruent to `c` modulo the number of clients, and belongs to share `c % of`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobin {
    pub(crate) share: Share,
    /// The group's clients over all shares.
    pub(crate) clients: u32,
    /// Slot of this share's first client; the others follow.
    pub(crate) first_slot: u32,
    /// Whether a load's records are distributed: all shares insert equally many, with any number of
    /// clients.
    pub(crate) loads: bool,
}

impl RoundRobin {
    /// The arrivals of this share.
    pub(crate) fn arrivals(&self) -> NumberPartition {
        NumberPartition { cycle: self.clients.into(), ..NumberPartition::of_share(self.share) }
    }

    /// The numbers of this share in the closed model, equally many per client. Otherwise a share
    /// with fewer clients would continue alone at the end.
    pub(crate) fn closed_numbers(&self) -> NumberPartition {
        if self.loads { NumberPartition::of_share(self.share) } else { self.arrivals() }
    }

    /// The arrivals of this share's clients on one worker.
    fn arrivals_of(&self, worker: u32, workers: u32) -> NumberPartition {
        let (whole, workers) = (self.arrivals(), u64::from(workers));
        let slots_ahead = u64::from(worker) + workers - u64::from(self.first_slot) % workers;
        let first = whole.first + whole.step * (slots_ahead % workers);
        NumberPartition { first, step: whole.step * workers, ..whole }
    }

    /// A worker's share of a group's tape, which is a part of this share's; `None` without a client
    /// of the group.
    pub(crate) fn tape_share(&self, worker: u32, workers: u32) -> Option<Share> {
        let Share { index, of } = self.share;
        let clients = clients_of(self.clients, self.share);
        let place = (worker + workers - self.first_slot % workers) % workers;
        // Shares without a client get no operations of the tape either.
        let (parts, shares) = (clients.min(workers), of.min(self.clients));
        (place < parts).then_some(Share { index: index + shares * place, of: shares * parts })
    }
}

/// Number of a group's clients in a share. Earlier shares get the remainder.
pub(crate) fn clients_of(clients: u32, share: Share) -> u32 {
    NumberPartition::of_share(share).of_first(clients.into()) as u32
}

impl OperationNumbers {
    /// The numbers of a sequence. `workers` is the number of workers with separate arrivals; `None`
    /// if clients have threads.
    pub(crate) fn new(
        arrival: &Arrival,
        turns: RoundRobin,
        workers: Option<u32>,
        phases: Vec<PhaseNumbers>,
    ) -> Self {
        if let Arrival::Closed { think_time_ns } = arrival {
            let phases = phases.iter().map(|phase| Counter::new(phase, turns)).collect();
            let partition = (turns.share.of > 1).then(|| turns.closed_numbers());
            return Self::Closed { phases, partition, think_time_ns: *think_time_ns };
        }
        // A thread with a whole tape needs no lock.
        let taped = matches!(arrival, Arrival::Tape { .. });
        let alone = taped && clients_of(turns.clients, turns.share) == 1;
        if let Some(workers) = workers.or(alone.then_some(THREADS_MAX)) {
            return Self::Parts { arrival: arrival.clone(), phases, turns, workers };
        }
        match Schedule::new(arrival, &phases, turns.arrivals(), turns.tape_share(0, 1)) {
            Some(Schedule::Law { phases, .. }) => Self::Indexed {
                next: phases.iter().map(|_| CachePadded(AtomicU64::new(0))).collect(),
                phases,
                partition: turns.arrivals(),
                polling: HandoffLock::new(()),
            },
            Some(schedule) => {
                let schedule = HandoffLock::new(schedule);
                Self::Shared { schedule, claims: SharedClaims::new(turns.clients as usize) }
            }
            None => Self::Nobody,
        }
    }

    /// A worker's source of numbers; `None` without a client of the group.
    pub(crate) fn source(&self, worker: u32) -> Option<Source<'_>> {
        match self {
            Self::Closed { phases, partition, think_time_ns } => {
                let chunks = phases.iter().map(|_| Cell::new((0, 0))).collect();
                let (partition, think_time_ns) = (*partition, *think_time_ns);
                Some(Source::Closed { phases, partition, think_time_ns, chunks })
            }
            Self::Indexed { phases, next, partition, polling } => {
                let (phases, partition) = (phases.clone(), *partition);
                let arrivals =
                    SharedArrivals { phases, phase: 0, next, partition, polling, last: (0, 0) };
                Some(Source::Indexed(RefCell::new(arrivals)))
            }
            Self::Shared { schedule, claims } => Some(Source::Shared { schedule, claims }),
            Self::Parts { arrival, phases, turns, workers } => {
                let partition = turns.arrivals_of(worker, *workers);
                let tape_share = turns.tape_share(worker, *workers);
                let schedule = Schedule::new(arrival, phases, partition, tape_share)?;
                Some(Source::Own(RefCell::new(schedule)))
            }
            Self::Nobody => None,
        }
    }
}

/// The next number of a phase, from unused ones or from the phase's counter.
#[inline(always)]
fn next_number(
    chunk: &Cell<(u64, u64)>,
    (phases, phase): (&[Counter], usize),
    partition: &Option<NumberPartition>,
) -> Option<u64> {
    let (mut index, mut end) = chunk.get();
    if index == end {
        (index, end) = phases[phase].take()?;
    }
    chunk.set((index + 1, end));
    Some(match partition {
        Some(partition) => partition.nth(index),
        None => index,
    })
}

/// The index of the last phase that has begun at an instant, or of the first one.
#[inline(always)]
fn last_begun(phases: &[Counter], instant_ns: u64) -> usize {
    let mut phase = phases.len() - 1;
    while phase > 0 && phases[phase].start_ns > instant_ns {
        phase -= 1;
    }
    phase
}

impl Counter {
    fn new(numbers: &PhaseNumbers, turns: RoundRobin) -> Self {
        let limit = numbers.operations.map_or(u64::MAX, |all| turns.closed_numbers().of_first(all));
        let chunk = (limit / (u64::from(turns.clients) * 16)).clamp(1, CHUNK_MAX);
        let next = CachePadded(AtomicU64::new(numbers.done));
        Self { next, start_ns: numbers.start_ns, limit, chunk }
    }

    /// Takes numbers from the counter.
    #[inline(never)]
    fn take(&self) -> Option<(u64, u64)> {
        let first = self.next.0.fetch_add(self.chunk, Ordering::Relaxed);
        let end = first.saturating_add(self.chunk).min(self.limit);
        (first < self.limit).then_some((first, end))
    }
}

impl Schedule {
    fn new(
        arrival: &Arrival,
        phases: &[PhaseNumbers],
        partition: NumberPartition,
        tape_share: Option<Share>,
    ) -> Option<Self> {
        if let Arrival::Tape { .. } = arrival {
            return Cursor::new(arrival, phases.first()?, tape_share?)
                .map(Box::new)
                .map(Self::Tape);
        }
        let arrivals =
            |phase: &PhaseNumbers| Some((Arrivals::new(arrival, phase.seed, partition)?, *phase));
        Some(Self::Law { phases: phases.iter().map(arrivals).collect::<Option<_>>()?, phase: 0 })
    }

    /// The next operation for a client that became free at `ready_ns`; `None` after the last.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, ready_ns: u64) -> Option<ScheduledOp> {
        let (phases, current) = match self {
            Self::Law { phases, phase } => (phases, phase),
            Self::Tape(cursor) => return cursor.take_next(ready_ns),
        };
        loop {
            let (arrivals, phase) = &mut phases[*current];
            let due = arrivals.peek();
            let intended_ns = phase.start_ns.saturating_add(due.at_ns);
            if !phase.excludes(due.number, intended_ns) {
                arrivals.next();
                return Some(ScheduledOp { phase: *current, number: due.number, intended_ns });
            }
            if *current + 1 == phases.len() {
                return None;
            }
            *current += 1;
        }
    }

    /// Returns the data of the tape's operation that was taken last.
    #[inline]
    pub(crate) fn give(&self, taped_op: &mut TapedOp, content: &mut TapedContent) {
        if let Self::Tape(cursor) = self {
            cursor.give(taped_op, content);
        }
    }
}

/// A client's view of the arrivals that it shares with others. Each client computes the instant of
/// the next one by its index.
#[derive(Debug)]
pub(crate) struct SharedArrivals<'a> {
    phases: Vec<(Arrivals, PhaseNumbers)>,
    phase: usize,
    /// By phase.
    next: &'a [CachePadded<AtomicU64>],
    partition: NumberPartition,
    /// Held by the client that polls for the next arrival because it is due too soon for a sleep.
    pub(crate) polling: &'a HandoffLock<()>,
    /// Index and instant of the client's last arrival.
    last: (u64, u64),
}

impl SharedArrivals<'_> {
    /// The next arrival and its index; `None` after the last.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(u64, ScheduledOp)> {
        loop {
            let index = self.next[self.phase].0.load(Ordering::Relaxed);
            let number = self.partition.nth(index);
            let (arrivals, phase) = &mut self.phases[self.phase];
            let intended_ns = phase.start_ns.saturating_add(arrivals.instant(number));
            if !phase.excludes(number, intended_ns) {
                return Some((index, ScheduledOp { phase: self.phase, number, intended_ns }));
            }
            if self.phase + 1 == self.phases.len() {
                return None;
            }
            self.phase += 1;
        }
    }

    /// Takes an arrival, and returns the mean time between arrivals since the client's last one.
    /// `None` if another client has taken it.
    #[inline]
    pub(crate) fn take(&mut self, index: u64, turn: &ScheduledOp) -> Option<u64> {
        let next = &self.next[turn.phase].0;
        next.compare_exchange(index, index + 1, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let (last, last_ns) = std::mem::replace(&mut self.last, (index, turn.intended_ns));
        Some(turn.intended_ns.saturating_sub(last_ns) / index.saturating_sub(last).max(1))
    }
}

/// A worker's source of a group's numbers.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// Without a partition, the share has all numbers. `chunks` are the unused numbers that were
    /// taken from the counters.
    Closed {
        phases: &'a [Counter],
        partition: Option<NumberPartition>,
        think_time_ns: u64,
        chunks: Vec<Cell<(u64, u64)>>,
    },
    Indexed(RefCell<SharedArrivals<'a>>),
    Shared {
        schedule: &'a HandoffLock<Schedule>,
        claims: &'a SharedClaims,
    },
    Own(RefCell<Schedule>),
}

/// The numbers of a client with a thread in the closed model without think time, whose instants
/// never go back.
#[derive(Debug)]
pub(crate) struct Unpaced<'a> {
    phases: &'a [Counter],
    partition: Option<NumberPartition>,
    phase: usize,
    next_start_ns: u64,
    /// Unused numbers that were taken from the counter.
    chunk: Cell<(u64, u64)>,
}

impl Unpaced<'_> {
    /// The phase and the number of the operation after `ready_ns`; `None` after the last number.
    #[inline(always)]
    pub(crate) fn next(&mut self, ready_ns: u64) -> Option<(usize, u64)> {
        if ready_ns >= self.next_start_ns {
            self.enter_phase(ready_ns);
        }
        let number = next_number(&self.chunk, (self.phases, self.phase), &self.partition)?;
        Some((self.phase, number))
    }

    #[cold]
    fn enter_phase(&mut self, ready_ns: u64) {
        let begun = last_begun(self.phases, ready_ns);
        if begun != self.phase {
            (self.phase, self.chunk) = (begun, Cell::default());
        }
        self.next_start_ns = self.phases.get(begun + 1).map_or(u64::MAX, |next| next.start_ns);
    }
}

impl<'a> Source<'a> {
    /// The numbers without a schedule, if the source has no think time.
    pub(crate) fn unpaced(&self) -> Option<Unpaced<'a>> {
        let Self::Closed { phases, partition, think_time_ns: 0, .. } = self else { return None };
        let (partition, chunk) = (*partition, Cell::default());
        Some(Unpaced { phases, partition, phase: 0, next_start_ns: 0, chunk })
    }

    /// The queue in which clients with threads wait for access to their tape. The first one holds
    /// it and waits for the next operation; the others wait for the first. So only one thread at a
    /// time polls the clock. `None` if clients needn't wait for others.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&'a HandoffLock<Schedule>> {
        if let Self::Shared { schedule, .. } = self { Some(schedule) } else { None }
    }

    /// The claims with which clients with threads wait for one another.
    pub(crate) fn claims(&self) -> Option<&SharedClaims> {
        if let Self::Shared { claims, .. } = self { Some(claims) } else { None }
    }

    /// The next operation of an unshared tape, with its data; as [`Self::next`] and [`Self::give`].
    #[inline]
    pub(crate) fn take(
        &self,
        ready_ns: u64,
        taped_op: &mut TapedOp,
        content: &mut TapedContent,
    ) -> Option<ScheduledOp> {
        let Self::Own(schedule) = self else { return None };
        let Schedule::Tape(cursor) = &mut *schedule.borrow_mut() else { return None };
        let turn = cursor.take_next(ready_ns)?;
        cursor.give(taped_op, content);
        Some(turn)
    }

    /// The next operation for a client that became free at `ready_ns`; `None` after the last
    /// number, and for shared ones. Always inlined, so that the result stays in registers.
    #[inline(always)]
    pub(crate) fn next(&self, ready_ns: u64) -> Option<ScheduledOp> {
        match self {
            Self::Closed { phases, partition, think_time_ns, chunks } => {
                let intended_ns = ready_ns + think_time_ns;
                let phase = last_begun(phases, intended_ns);
                let number = next_number(&chunks[phase], (phases, phase), partition)?;
                Some(ScheduledOp { phase, number, intended_ns })
            }
            Self::Own(schedule) => schedule.borrow_mut().take_next(ready_ns),
            Self::Indexed(_) | Self::Shared { .. } => None,
        }
    }

    /// Returns the data of the operation that was taken last, if it comes from an unshared tape.
    #[inline]
    pub(crate) fn give(&self, taped_op: &mut TapedOp, content: &mut TapedContent) {
        if let Self::Own(schedule) = self {
            schedule.borrow().give(taped_op, content);
        }
    }
}

#[cfg(test)]
mod tests {
    use kvmark_plan::RatePoint;

    use super::*;

    fn next(source: &Source<'_>, ready_ns: u64) -> Option<ScheduledOp> {
        let Source::Indexed(arrivals) = source else { return source.next(ready_ns) };
        let mut arrivals = arrivals.borrow_mut();
        loop {
            let (index, turn) = arrivals.peek()?;
            if arrivals.take(index, &turn).is_some() {
                assert_eq!(arrivals.take(index, &turn), None);
                return Some(turn);
            }
        }
    }

    /// For each worker of each share, the number of a group's arrivals and of its clients by the
    /// slots of [`crate::sequence::PhaseSequence::seats`].
    fn issued(
        arrivals: u64,
        clients: u32,
        workers: u32,
        of: u32,
        send_window: u32,
    ) -> Vec<(u64, u32)> {
        let mut numbers = Vec::new();
        let mut issued = Vec::new();
        for index in 0..of {
            let own = clients / of + u32::from(index < clients % of);
            let turns = RoundRobin {
                share: Share { index, of },
                clients,
                first_slot: send_window,
                loads: false,
            };
            let rates = vec![RatePoint { at_ns: 0, rate: 1.0 }];
            for worker in 0..workers {
                let seats = (send_window..send_window + own)
                    .filter(|slot| slot % workers == worker)
                    .count();
                let part = turns.arrivals_of(worker, workers);
                let taped_op = Arrivals::new(&Arrival::Constant { rates: rates.clone() }, 1, part);
                let taped_op = taped_op.into_iter().flatten().map(|due| due.number);
                let taped_op: Vec<u64> = taped_op.take_while(|number| *number < arrivals).collect();
                issued.push((taped_op.len() as u64, seats as u32));
                numbers.extend(taped_op);
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..arrivals).collect::<Vec<_>>());
        issued
    }

    #[test]
    fn each_arrival_has_one_issuer_and_each_client_the_same_load() {
        for (clients, workers) in (1..12).flat_map(|clients| (1..7).map(move |w| (clients, w))) {
            for (of, send_window) in
                (1..5).flat_map(|of| (0..7).map(move |send_window| (of, send_window)))
            {
                let each = 10;
                for (count, seats) in
                    issued(each * u64::from(clients), clients, workers, of, send_window)
                {
                    assert_eq!(
                        count,
                        each * u64::from(seats),
                        "{clients} {workers} {of} {send_window}"
                    );
                }
            }
        }
    }

    /// The numbers of each share of a hundred in the closed model.
    fn closed_numbers(clients: u32, of: u32, loads: bool) -> Vec<Vec<u64>> {
        let phase =
            PhaseNumbers { operations: Some(100), done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };
        let closed = Arrival::Closed { think_time_ns: 0 };
        let share = |index| {
            let turns = RoundRobin { share: Share { index, of }, clients, first_slot: 0, loads };
            let numbers = OperationNumbers::new(&closed, turns, None, vec![phase]);
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
                // Each client has equally many until the last round.
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
        let turns = RoundRobin { share, clients: 6, first_slot: 0, loads: false };
        let phase =
            PhaseNumbers { operations: Some(100), done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };
        let closed = Arrival::Closed { think_time_ns: 5 };
        let numbers = OperationNumbers::new(&closed, turns, None, vec![phase]);
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
    fn threads_take_each_arrival_of_their_share_once_at_its_instant() {
        let turns = RoundRobin {
            share: Share { index: 1, of: 2 },
            clients: 5,
            first_slot: 0,
            loads: false,
        };
        let warm = PhaseNumbers { end_ns: 4_000_000, ..PhaseNumbers::WHOLE };
        let operations = Some(20_000);
        let measured = PhaseNumbers { start_ns: 4_000_000, operations, ..PhaseNumbers::WHOLE };
        let phases = vec![warm, measured];
        let poisson = Arrival::Poisson { rates: vec![RatePoint { at_ns: 0, rate: 1e6 }] };
        let taken = |workers, clients| {
            let numbers = OperationNumbers::new(&poisson, turns, workers, phases.clone());
            let all = |client| {
                let source = numbers.source(client).unwrap();
                let turn = |turn: ScheduledOp| (turn.phase, turn.number, turn.intended_ns);
                std::iter::from_fn(|| next(&source, 0).map(turn)).collect::<Vec<_>>()
            };
            let all = &all;
            let mut taken = std::thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..clients).map(|client| scope.spawn(move || all(client))).collect();
                let taken = clients.into_iter().flat_map(|client| client.join().unwrap());
                taken.collect::<Vec<_>>()
            });
            taken.sort_unstable();
            taken
        };
        let alone = taken(Some(1), 1);
        assert!(alone.len() > 9_000, "{}", alone.len());
        assert_eq!(taken(None, 3), alone);
    }

    #[test]
    fn an_operation_belongs_to_the_phase_in_which_it_is_due() {
        let share = Share { index: 0, of: 1 };
        let turns = RoundRobin { share, clients: 1, first_slot: 0, loads: false };
        let warm = PhaseNumbers { operations: None, done: 0, seed: 0, start_ns: 100, end_ns: 130 };
        let measured =
            PhaseNumbers { start_ns: 130, end_ns: u64::MAX, operations: Some(2), ..warm };
        let rates = vec![RatePoint { at_ns: 0, rate: 1e8 }];
        let constant = Arrival::Constant { rates };
        for workers in [None, Some(1)] {
            let numbers = OperationNumbers::new(&constant, turns, workers, vec![warm, measured]);
            let source = numbers.source(0).unwrap();
            let due = std::iter::from_fn(|| next(&source, 0));
            let due: Vec<_> = due.map(|turn| (turn.phase, turn.number, turn.intended_ns)).collect();
            let warm = [(0, 0, 100), (0, 1, 110), (0, 2, 120)];
            assert_eq!(due, [&warm[..], &[(1, 0, 130), (1, 1, 140)]].concat());
        }
        let closed = Arrival::Closed { think_time_ns: 5 };
        let numbers = OperationNumbers::new(&closed, turns, None, vec![warm, measured]);
        let source = numbers.source(0).unwrap();
        let of = |ready_ns| next(&source, ready_ns).map(|turn| (turn.phase, turn.number));
        // Clients don't arrive in the order of their instants.
        let ready = [100, 125, 124, 200, 300].map(of);
        assert_eq!(ready, [Some((0, 0)), Some((1, 0)), Some((0, 1)), Some((1, 1)), None]);
    }
}
