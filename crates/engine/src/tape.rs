//! Operations from a tape: their data, intended starts and order.

use std::collections::BTreeMap;
use std::path::Path;

use kvmark_plan::{Arrival, Kind, Plan, Share, TapeOrder, split_mix};
use kvmark_trace::tape::{Block, Record, TapeError, TapeReader};
use kvmark_workload::{Draw, NumberPartition, TapedContent, sized};

use crate::claims::Claim;
use crate::error::EngineError;
use crate::scheduled::{PhaseNumbers, ScheduledOp};
use crate::sequence::turns;

/// A position on a tape, from which operations are taken in order.
#[derive(Debug)]
pub(crate) struct Cursor {
    reader: TapeReader,
    block: Block,
    index: usize,
    /// Number of the next record on the tape.
    number: u64,
    /// Number of passes over the tape, and the current one.
    times: u32,
    time: u32,
    length_ns: u64,
    /// The share of the tape, and the number of its operations before this position.
    share: Share,
    own: u64,
    order: TapeOrder,
    speed: Option<f64>,
    numbers: PhaseNumbers,
}

/// Whether a tape's operation belongs to a share. Operations that must keep their order belong to
/// one share.
fn is_of_share(share: Share, record: &Record, number: u64, order: TapeOrder) -> bool {
    let word = claim(record, order).map_or(number, |claim| split_mix(claim.word));
    word % u64::from(share.of) == u64::from(share.index)
}

/// Number of this share's operations on tapes, by phase and group.
pub(crate) type TapeCounts = BTreeMap<(usize, u32), u64>;

impl Cursor {
    /// A cursor at the start of a group's tape; `None` without a tape.
    pub(crate) fn new(arrival: &Arrival, numbers: &PhaseNumbers, share: Share) -> Option<Self> {
        let Arrival::Tape { path, speed, order, loops, length_ns, .. } = arrival else {
            return None;
        };
        Some(Self {
            reader: TapeReader::open(Path::new(path))
                .expect("a tape whose block headers were read can be read"),
            block: Block::default(),
            index: 0,
            number: 0,
            own: 0,
            times: *loops,
            time: 0,
            length_ns: *length_ns,
            share,
            order: *order,
            speed: *speed,
            numbers: *numbers,
        })
    }

    /// The next operation for a client that became free at `ready_ns`; `None` after the last.
    #[inline]
    pub(crate) fn take_next(&mut self, ready_ns: u64) -> Option<ScheduledOp> {
        loop {
            let (at_ns, number) = (self.peek()?, self.number);
            if self.numbers.operations.is_some_and(|all| number >= all) {
                return None;
            }
            let intended_ns = match self.speed {
                Some(speed) => self.numbers.start_ns.saturating_add(self.offset_ns(at_ns, speed)),
                None => ready_ns,
            };
            if intended_ns >= self.numbers.end_ns {
                return None;
            }
            if self.pass()? {
                return Some(ScheduledOp { phase: 0, number, intended_ns });
            }
        }
    }

    /// Moves back to the start.
    pub(crate) fn rewind(&mut self) {
        self.reader.rewind();
        self.block = Block::default();
        self.index = 0;
        self.number = 0;
        self.own = 0;
        self.time = 0;
    }

    /// Returns the data of the operation that was taken last.
    #[inline]
    pub(crate) fn give(&self, taped_op: &mut TapedOp, content: &mut TapedContent) {
        let Some(record) = self.last() else { return };
        if record.flags & (Record::KEY_KEPT | Record::VALUE_KEPT) != 0 || !content.is_empty() {
            self.give_content(content);
        }
        taped_op.key = record.key;
        taped_op.ttl_ms = record.ttl_ms;
        taped_op.value_size = record.value_size;
        taped_op.count = record.count;
        taped_op.statement = record.statement;
        taped_op.kind = kind(&record);
        taped_op.claim = claim(&record, self.order).unwrap_or(taped_op.claim);
    }

    #[inline(never)]
    fn give_content(&self, content: &mut TapedContent) {
        if let Some(record) = self.last() {
            content.set(self.block.key(&record), self.block.value(&record));
        }
    }

    #[inline]
    fn last(&self) -> Option<Record> {
        self.block.record(self.index.checked_sub(1)?)
    }

    /// Number of the share's operations due by this time since the start. Times must not decrease.
    /// `None` if the tape is replayed as fast as possible.
    pub(crate) fn due_by(&mut self, at_ns: u64) -> Option<u64> {
        let speed = self.speed?;
        while let Some(sent_ns) = self.peek()
            && self.offset_ns(sent_ns, speed) <= at_ns
        {
            let own = self.pass()?;
            self.own += u64::from(own);
        }
        Some(self.own)
    }

    /// Skips the next operation. Returns whether it belongs to the share.
    #[inline]
    fn pass(&mut self) -> Option<bool> {
        let number = self.number;
        self.index += 1;
        self.number += 1;
        Some(self.share.of == 1 || is_of_share(self.share, &self.last()?, number, self.order))
    }

    /// When the next operation was sent; `None` after the last.
    #[inline(always)]
    fn peek(&mut self) -> Option<u64> {
        match self.block.at_ns(self.index) {
            None => self.peek_behind(),
            at_ns => at_ns,
        }
    }

    /// [`Self::peek`] after the last record of a block.
    #[inline(never)]
    fn peek_behind(&mut self) -> Option<u64> {
        while self.index == self.block.len() {
            if !self
                .reader
                .next_block(&mut self.block)
                .expect("a tape whose heads were read can be read")
            {
                if self.time + 1 >= self.times {
                    return None;
                }
                self.time += 1;
                self.reader.rewind();
                self.block = Block::default();
            }
            self.index = 0;
        }
        self.block.at_ns(self.index)
    }

    /// The intended start since the phase began.
    fn offset_ns(&self, at_ns: u64, speed: f64) -> u64 {
        let at_ns = at_ns.saturating_add(u64::from(self.time).saturating_mul(self.length_ns));
        // Times on tapes are below 2^53 ns, a hundred days.
        if speed == 1.0 { at_ns } else { (at_ns as f64 / speed) as u64 }
    }
}

/// An operation of a tape, with the claim that orders it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapedOp {
    key: u64,
    /// Time to live of its write; 0 for no limit.
    pub(crate) ttl_ms: u64,
    value_size: u32,
    /// Records that a scan requests.
    pub(crate) count: u32,
    statement: u16,
    kind: Kind,
    /// Unused for tapes without an order.
    pub(crate) claim: Claim,
}

impl TapedOp {
    /// The value before the first operation.
    pub(crate) const NOTHING: Self = Self {
        key: 0,
        ttl_ms: 0,
        value_size: 0,
        count: 0,
        statement: 0,
        kind: Kind::Read,
        claim: Claim { word: 0, alone: false },
    };

    /// The draw, with a statement of the group's mix. An insert writes existing records, too.
    #[inline]
    pub(crate) fn draw(&self, number: u64, statements: &[Option<u32>]) -> Draw {
        Draw {
            kind: self.kind,
            statement: statements.get(usize::from(self.statement)).copied().flatten(),
            ordinal: self.key,
            scan_length: u64::from(self.count),
            field: 0,
            version: sized(number, self.value_size),
        }
    }
}

#[inline]
fn kind(record: &Record) -> Kind {
    Kind::ALL.get(usize::from(record.kind)).copied().unwrap_or(Kind::Read)
}

#[inline]
fn claim(record: &Record, order: TapeOrder) -> Option<Claim> {
    let alone = !matches!(kind(record), Kind::Read | Kind::Scan);
    match order {
        TapeOrder::Key => Some(Claim { word: record.key, alone }),
        TapeOrder::Client => Some(Claim { word: u64::from(record.client), alone: true }),
        TapeOrder::None => None,
    }
}

/// Checks that the tapes of a plan exist and are long enough. Returns the number of this share's
/// operations.
pub(crate) fn check_tapes(plan: &Plan) -> Result<TapeCounts, EngineError> {
    let mut taped = TapeCounts::new();
    for (index, phase) in plan.phases.iter().enumerate() {
        for (active, turns) in phase.groups.iter().zip(turns(plan, phase, plan.share)) {
            let arrival = &plan.groups[active.group as usize].arrival;
            let Arrival::Tape { path, loops, order, .. } = arrival else { continue };
            let tape = |problem: String| EngineError::Tape { path: path.clone(), problem };
            let once = operations(path).map_err(|problem| tape(problem.to_string()))?;
            let there = once * u64::from(*loops);
            let wanted = active.operations.unwrap_or(there);
            if wanted > there {
                return Err(tape(format!("it ends after {there} operations")));
            }
            let own = match turns.tape_share(0, 1) {
                Some(share) => own(path, once, wanted, share, *order),
                None => Ok(0),
            };
            let own = own.map_err(|problem| tape(problem.to_string()))?;
            taped.insert((index, active.group), own);
        }
    }
    Ok(taped)
}

/// How many of the first `wanted` operations belong to a share. The tape has `once` operations and
/// is repeated.
fn own(
    path: &str,
    once: u64,
    wanted: u64,
    share: Share,
    order: TapeOrder,
) -> Result<u64, TapeError> {
    if share.of == 1 {
        return Ok(wanted);
    }
    if order == TapeOrder::None {
        return Ok(NumberPartition::of_share(share).of_first(wanted));
    }
    let (times, rest) = (wanted / once.max(1), wanted % once.max(1));
    let (mut reader, mut block) = (TapeReader::open(Path::new(path))?, Block::default());
    let (mut number, mut of_each, mut of_rest) = (0, 0, 0);
    while reader.next_block(&mut block)? {
        for record in (0..block.len()).filter_map(|index| block.record(index)) {
            let has = u64::from(is_of_share(share, &record, number, order));
            of_each += has;
            of_rest += if number < rest { has } else { 0 };
            number += 1;
        }
    }
    Ok(times * of_each + of_rest)
}

/// Number of operations on a tape, from its block headers.
fn operations(path: &str) -> Result<u64, TapeError> {
    let (mut reader, mut there) = (TapeReader::open(Path::new(path))?, 0);
    while let Some(head) = reader.skip_block()? {
        there += head.records as u64;
    }
    Ok(there)
}
