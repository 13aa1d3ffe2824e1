//! The queue of requests between their arrival and the tape.
//!
//! A thread has one recorder. Operations are queued in arrival order, so the instants on a tape
//! never decrease: an answered operation is written once all earlier ones are. An operation without
//! a reply is written as unanswered after [`PATIENCE_NS`], or when memory is exhausted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use kvmark_plan::Outcome;
use kvmark_trace::tape::{BlockWriter, HEAP_MAX, RECORD_BYTES, Record};
use kvmark_trace::verbs::{KINDS, shape_of};
use serde_json::json;

use crate::content::{Contents, Keeper};
use crate::report::TapReport;
use crate::shared::Shared;
use crate::store::Piece;
use crate::verbs::{Verb, Verbs};

/// Time limit for a reply.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Longest time until a block is written.
const BLOCK_NS: u64 = 1_000_000_000;
/// Greatest number of recorded keys of an operation, which all fit into one block.
pub(crate) const KEYS_MAX: usize = 512;

/// The hash and the length of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    pub(crate) size: u32,
}

/// The keys of an operation. A single key, the usual case, needs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) first: Option<Key>,
    pub(crate) more: Vec<Key>,
    /// The number of keys beyond [`KEYS_MAX`], which aren't recorded.
    pub(crate) cut: u64,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.first.iter().chain(&self.more)
    }

    /// Adds a key. Returns whether it is recorded.
    pub(crate) fn push(&mut self, key: Key) -> bool {
        match self.len() {
            0 => self.first = Some(key),
            1..KEYS_MAX => self.more.push(key),
            _ => self.cut += 1,
        }
        self.cut == 0
    }
}

/// An operation as described by its request.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The number of the command's name.
    pub(crate) verb: u16,
    pub(crate) keys: Keys,
    /// [`Record::UNKNOWN`] if nothing is written.
    pub(crate) value_size: u32,
    /// 0 means no expiry.
    pub(crate) ttl_ms: u64,
    /// The kept contents of its keys and values.
    pub(crate) contents: Option<Box<Contents>>,
}

/// The client of a connection, and the arrival of the bytes that are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) client: u32,
    pub(crate) at_ns: u64,
}

/// The number of bytes in a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes<'a> {
    Unknown,
    One(u32),
    /// For each key.
    Each(&'a [u32]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Answered,
    Withdrawn,
}

#[derive(Debug)]
struct Slot {
    record: Record,
    verb: u16,
    state: State,
    /// The other keys, each with the number of bytes read.
    more: Box<[(Key, u32)]>,
    /// The kept contents of keys and values.
    contents: Option<Box<Contents>>,
}

/// The recorder of one thread.
pub(crate) struct Recorder {
    pub(crate) verbs: Verbs,
    pub(crate) report: TapReport,
    pub(crate) keeper: Keeper,
    pub(crate) shared: Arc<Shared>,
    /// The origin of the bytes that are read.
    pub(crate) origin: Origin,
    tape: usize,
    pieces: Sender<Piece>,
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    base: u64,
    /// Keys in `more` of all slots.
    more: usize,
    slots_max: usize,
    block: BlockWriter,
    block_since_ns: u64,
    /// Size of contents at which a block ends.
    block_max: usize,
    /// Statement numbers by verb, without and with a time to live.
    statements: Vec<[Option<u16>; 2]>,
    statements_made: u16,
    /// Operations that were reported as progress.
    reported: u64,
}

impl Recorder {
    pub(crate) fn new(
        keeper: Keeper,
        pieces: Sender<Piece>,
        tape: usize,
        memory_bytes: usize,
    ) -> Self {
        // Half of the memory is for blocks that wait for the disk, a quarter for contents.
        let parts = if keeper.keeps_any() { 4 } else { 2 };
        Self {
            verbs: Verbs::new(),
            report: TapReport::default(),
            shared: Arc::clone(&keeper.shared),
            origin: Origin::default(),
            keeper,
            tape,
            pieces,
            slots: VecDeque::new(),
            base: 0,
            more: 0,
            // A growing queue briefly exists twice.
            slots_max: (memory_bytes / parts / size_of::<Slot>() / 3).max(KEYS_MAX),
            block: BlockWriter::default(),
            block_since_ns: 0,
            block_max: memory_bytes / 16,
            statements: Vec::new(),
            statements_made: 0,
            reported: 0,
        }
    }

    /// Whether operations are still recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.recording.load(Relaxed)
    }

    /// Whether no operation is queued.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Queues an operation and returns its number.
    pub(crate) fn begin(&mut self, operation: Operation) -> u64 {
        let Operation { verb, keys, value_size, ttl_ms, contents } = operation;
        self.report.cut_keys += keys.cut;
        while self.slots.len() + self.more >= self.slots_max && !self.slots.is_empty() {
            self.release_first();
        }
        let first =
            keys.first.unwrap_or_else(|| Key { hash: self.keeper.hash_key.hash(b""), size: 0 });
        let record = Record {
            at_ns: self.origin.at_ns,
            key: first.hash,
            key_size: first.size,
            ttl_ms,
            client: self.origin.client,
            value_size,
            kind: self.verbs.get(verb).command.kind(),
            outcome: Record::UNANSWERED,
            ..Record::default()
        };
        let more: Box<[_]> = keys.more.iter().map(|key| (*key, value_size)).collect();
        self.more += more.len();
        self.slots.push_back(Slot { record, verb, state: State::Waiting, more, contents });
        self.base + self.slots.len() as u64 - 1
    }

    /// Sets the outcome of an operation, unless it was written already.
    pub(crate) fn complete(&mut self, number: u64, outcome: Outcome, sizes: Sizes<'_>) {
        let completed_ns = self.origin.at_ns;
        let Some(slot) = self.waiting(number) else { return };
        slot.state = State::Answered;
        slot.record.completed_ns = completed_ns;
        slot.record.outcome = outcome as u8;
        match sizes {
            Sizes::Unknown => {}
            Sizes::One(size) => slot.record.value_size = size,
            Sizes::Each(sizes) => {
                let more = slot.more.iter_mut().map(|(_, size)| size);
                let places = [&mut slot.record.value_size].into_iter().chain(more);
                for (place, size) in places.zip(sizes) {
                    *place = *size;
                }
            }
        }
    }

    /// Marks an operation that no reply can follow.
    pub(crate) fn give_up(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Answered;
            self.report.unanswered += 1;
        }
    }

    /// Marks an operation that requested no reply.
    pub(crate) fn complete_without_reply(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Answered;
        }
    }

    /// Removes an operation from the recording.
    pub(crate) fn withdraw(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Withdrawn;
        }
    }

    /// Marks an operation as part of a transaction.
    pub(crate) fn in_transaction(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.record.flags |= Record::IN_TRANSACTION;
        }
    }

    /// Writes the operations that are answered or whose time limit has passed.
    pub(crate) fn release(&mut self, now_ns: u64) {
        while let Some(first) = self.slots.front() {
            let waited_ns = now_ns.saturating_sub(first.record.at_ns);
            if first.state == State::Waiting && waited_ns < PATIENCE_NS {
                break;
            }
            self.release_first();
        }
        // Added once for many operations because threads share the counter.
        if self.report.operations > self.reported {
            self.shared.operations.fetch_add(self.report.operations - self.reported, Relaxed);
            self.reported = self.report.operations;
        }
    }

    /// Checks time limits; to be called about twice a second.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.release(now_ns);
        if now_ns.saturating_sub(self.block_since_ns) >= BLOCK_NS {
            self.finish_block();
        }
    }

    /// Writes everything and returns the report.
    pub(crate) fn finish(mut self) -> TapReport {
        while !self.slots.is_empty() {
            self.release_first();
        }
        self.finish_block();
        self.report
    }

    fn waiting(&mut self, number: u64) -> Option<&mut Slot> {
        let place = number.checked_sub(self.base)?;
        let slot = self.slots.get_mut(usize::try_from(place).ok()?)?;
        (slot.state == State::Waiting).then_some(slot)
    }

    fn release_first(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        self.base += 1;
        self.more -= slot.more.len();
        if slot.state == State::Withdrawn || !self.is_recording() {
            return;
        }
        let rows = 1 + slot.more.len();
        let contents = slot.contents.filter(|contents| contents.len() <= HEAP_MAX);
        let contents = contents.as_deref();
        let heap = contents.map_or(0, Contents::len);
        let is_full = self.block.heap_len() >= self.block_max;
        if is_full || !self.block.fits(rows, heap) {
            self.finish_block();
        }
        if self.block.is_empty() {
            self.block_since_ns = self.shared.now_ns();
        }
        self.report.unanswered += u64::from(slot.state == State::Waiting);
        let statement = self.statement(slot.verb, slot.record.ttl_ms > 0);
        let record = Record { statement, items: rows as u16, ..slot.record };
        let key = |place| contents.and_then(|contents| contents.key(place));
        let value = contents.and_then(Contents::value);
        let value = value.filter(|value| value.len() == record.value_size as usize);
        self.block.push(&record, key(0), value);
        for (place, (more, value_size)) in (1..).zip(slot.more) {
            let (key_size, own) = (more.size, key(place));
            let record = Record { key: more.hash, key_size, value_size, items: 0, ..record };
            self.block.push(&record, own, None);
        }
        self.report.operations += 1;
    }

    /// The number of a statement. Its first use sends the statement to the file.
    fn statement(&mut self, verb: u16, expires: bool) -> u16 {
        let place = usize::from(verb);
        if self.statements.len() <= place {
            self.statements.resize(place + 1, [None; 2]);
        }
        if let Some(number) = self.statements[place][usize::from(expires)] {
            return number;
        }
        let number = self.statements_made;
        self.statements_made += 1;
        self.statements[place][usize::from(expires)] = Some(number);
        let Verb { name, command, .. } = self.verbs.get(verb);
        let kind = KINDS[usize::from(command.kind())];
        let line = json!({ "statement": shape_of(name, expires), "kind": kind });
        self.send(Piece::Statement { tape: self.tape, line: format!("{line}\n") });
        number
    }

    fn finish_block(&mut self) {
        let rows = self.block.len();
        if rows == 0 {
            return;
        }
        let bytes = (rows + 1) * RECORD_BYTES + self.block.heap_len();
        let mut bytes = Vec::with_capacity(bytes);
        self.block.finish(&mut bytes).expect("a write into a vector succeeds");
        let length = bytes.len();
        let before = self.shared.unwritten.fetch_add(length, Relaxed);
        if before + length > self.shared.unwritten_max {
            self.shared.unwritten.fetch_sub(length, Relaxed);
            self.report.lost += rows as u64;
            return;
        }
        self.send(Piece::Block { tape: self.tape, bytes });
    }

    fn send(&self, piece: Piece) {
        // The receiver lives as long as any recorder.
        drop(self.pieces.send(piece));
    }
}
