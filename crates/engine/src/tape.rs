//! Operations from a tape: which there are, when they are due, and what they must not overtake.

use std::collections::BTreeMap;
use std::path::Path;

use kvmark_plan::{Arrival, Kind, TapeOrder, split_mix};
use kvmark_trace::tape::{Block, Record, TapeReader};
use kvmark_workload::{Draw, Kept, sized};

use crate::numbering::{Numbering, Turn};
use crate::order::Claim;

/// A place on a tape, from which operations are taken in their order.
#[derive(Debug)]
pub(crate) struct Cursor {
    reader: TapeReader,
    block: Block,
    index: usize,
    /// Of the next record on the tape.
    number: u64,
    /// How often the tape is carried out, and which time this is.
    times: u32,
    time: u32,
    length_ns: u64,
    /// Whose operations these are, and how many of them are before this place.
    owner: Owner,
    own: u64,
    order: TapeOrder,
    speed: Option<f64>,
    numbering: Numbering,
}

/// One of several who share a tape: nothing that must keep its order belongs to two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) index: u32,
    pub(crate) of: u32,
}

impl Owner {
    /// Who has all of it.
    pub(crate) const ONLY: Self = Self { index: 0, of: 1 };

    pub(crate) fn has(self, record: &Record, number: u64, order: TapeOrder) -> bool {
        let word = claim(record, order).map_or(number, |claim| split_mix(claim.word));
        word % u64::from(self.of) == u64::from(self.index)
    }
}

/// Operations of tapes that are this share's, by phase and group.
pub(crate) type Taped = BTreeMap<(usize, u32), u64>;

impl Cursor {
    /// At the beginning of a group's tape; none where it has none.
    pub(crate) fn new(arrival: &Arrival, numbering: &Numbering, owner: Owner) -> Option<Self> {
        let Arrival::Tape { path, speed, order, loops, length_ns, .. } = arrival else {
            return None;
        };
        Some(Self {
            reader: TapeReader::open(Path::new(path))
                .expect("a tape whose heads were read can be read"),
            block: Block::default(),
            index: 0,
            number: 0,
            own: 0,
            times: *loops,
            time: 0,
            length_ns: *length_ns,
            owner,
            order: *order,
            speed: *speed,
            numbering: *numbering,
        })
    }

    /// The next operation for a client that became free at `ready_ns`; none behind the last.
    #[inline]
    pub(crate) fn take_next(&mut self, ready_ns: u64) -> Option<Turn> {
        loop {
            let (at_ns, number) = (self.peek()?, self.number);
            if self.numbering.operations.is_some_and(|all| number >= all) {
                return None;
            }
            let intended_ns = match self.speed {
                Some(speed) => self.numbering.start_ns.saturating_add(self.offset_ns(at_ns, speed)),
                None => ready_ns,
            };
            if intended_ns >= self.numbering.end_ns {
                return None;
            }
            if self.pass()? {
                return Some(Turn { leg: 0, number, intended_ns });
            }
        }
    }

    /// Goes back to the beginning.
    pub(crate) fn rewind(&mut self) {
        self.reader.rewind();
        self.block = Block::default();
        self.index = 0;
        self.number = 0;
        self.own = 0;
        self.time = 0;
    }

    /// Gives the operation that was taken last, and what was kept of it.
    #[inline]
    pub(crate) fn give(&self, taken: &mut Taken, kept: &mut Kept) {
        let Some(record) = self.last() else { return };
        if record.flags & (Record::KEY_KEPT | Record::VALUE_KEPT) != 0 || !kept.is_nothing() {
            self.give_kept(kept);
        }
        taken.key = record.key;
        taken.ttl_ms = record.ttl_ms;
        taken.value_size = record.value_size;
        taken.count = record.count;
        taken.statement = record.statement;
        taken.kind = kind(&record);
        taken.claim = claim(&record, self.order).unwrap_or(taken.claim);
    }

    #[inline(never)]
    fn give_kept(&self, kept: &mut Kept) {
        if let Some(record) = self.last() {
            kept.set(self.block.key(&record), self.block.value(&record));
        }
    }

    #[inline]
    fn last(&self) -> Option<Record> {
        self.block.record(self.index.checked_sub(1)?)
    }

    /// How many of its owner's operations are due this long after its beginning, or before, of
    /// times that don't fall. None where clients go as fast as they can.
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

    /// Passes over the next operation; whether it is the owner's.
    #[inline]
    fn pass(&mut self) -> Option<bool> {
        let number = self.number;
        self.index += 1;
        self.number += 1;
        Some(self.owner == Owner::ONLY || self.owner.has(&self.last()?, number, self.order))
    }

    /// When the next operation was sent; none behind the last.
    #[inline(always)]
    fn peek(&mut self) -> Option<u64> {
        match self.block.at_ns(self.index) {
            None => self.peek_behind(),
            at_ns => at_ns,
        }
    }

    /// [`Self::peek`] behind the last record of a block.
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

    /// When an operation is due since the phase began.
    fn offset_ns(&self, at_ns: u64, speed: f64) -> u64 {
        let at_ns = at_ns.saturating_add(u64::from(self.time).saturating_mul(self.length_ns));
        // Times on tapes are below 2^53 ns, a hundred days.
        if speed == 1.0 { at_ns } else { (at_ns as f64 / speed) as u64 }
    }
}

/// An operation of a tape, and what it must not overtake others on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    key: u64,
    /// How long what it writes lives; 0 for ever.
    pub(crate) ttl_ms: u64,
    value_size: u32,
    /// Records that are asked of a scan.
    pub(crate) count: u32,
    statement: u16,
    kind: Kind,
    /// For what has an order to keep.
    pub(crate) claim: Claim,
}

impl Taken {
    /// What a client begins with.
    pub(crate) const NOTHING: Self = Self {
        key: 0,
        ttl_ms: 0,
        value_size: 0,
        count: 0,
        statement: 0,
        kind: Kind::Read,
        claim: Claim { word: 0, alone: false },
    };

    /// What is done, by a statement of the group's mix; an insert writes whether or not the record
    /// is there.
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
