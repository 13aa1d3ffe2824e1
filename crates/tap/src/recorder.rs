//! What was asked, in the order in which it was, until it is answered; then it goes to the tape.
//!
//! A thread has one recorder. Operations wait in the order of their instants, so that a tape's
//! instants never fall: what is answered goes to the tape once all before it have, and what nobody
//! answers goes there without an answer after [`PATIENCE_NS`], or when memory is full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use kvmark_plan::Outcome;
use kvmark_trace::HashKey;
use kvmark_trace::tape::{BlockWriter, HEAP_MAX, RECORD_BYTES, Record};
use kvmark_trace::verbs::{KINDS, shape_of};
use serde_json::json;

use crate::content::{Contents, Keeper};
use crate::shared::Shared;
use crate::store::Piece;
use crate::told::Told;
use crate::verbs::Verbs;

/// How long an answer is waited for.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How long a block is filled at most.
const BLOCK_NS: u64 = 1_000_000_000;
/// Most keys of an operation that are recorded: all of them are in one block.
pub(crate) const KEYS_MAX: usize = 512;

/// A key, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    pub(crate) size: u32,
}

/// The keys of an operation. Most have one, which costs no memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) first: Option<Key>,
    pub(crate) more: Vec<Key>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.first.iter().chain(&self.more)
    }

    pub(crate) fn push(&mut self, key: Key) {
        if self.first.is_none() {
            self.first = Some(key);
        } else {
            self.more.push(key);
        }
    }
}

/// An operation as its request tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Number of the command's name.
    pub(crate) verb: u16,
    pub(crate) keys: Keys,
    /// [`Record::UNKNOWN`] where nothing is written.
    pub(crate) value_size: u32,
    /// 0 is forever.
    pub(crate) ttl_ms: u64,
}

/// Bytes that an answer brought.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes<'a> {
    Unknown,
    One(u32),
    /// Of each key.
    Each(&'a [u32]),
}

/// Why something isn't recorded though it was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Withdrawn {
    /// The server doesn't know the command.
    Unknown,
    /// Its transaction was given up.
    NotCarriedOut,
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
    /// The keys behind the first, with what was read of each.
    more: Box<[(Key, u32)]>,
    /// What is kept of keys and values.
    contents: Option<Box<Contents>>,
}

/// What one thread records.
pub(crate) struct Recorder {
    pub(crate) hash_key: HashKey,
    pub(crate) verbs: Verbs,
    pub(crate) told: Told,
    pub(crate) keeper: Keeper,
    pub(crate) shared: Arc<Shared>,
    tape: usize,
    pieces: Sender<Piece>,
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    base: u64,
    /// Keys in `more` of all slots.
    more: usize,
    slots_max: usize,
    block: BlockWriter,
    block_since_ns: u64,
    /// Contents of a block, beyond which it ends.
    block_max: usize,
    /// By verb, without and with a time to live.
    statements: Vec<[Option<u16>; 2]>,
    statements_made: u16,
    /// Operations that are shown as progress.
    shown: u64,
}

impl Recorder {
    pub(crate) fn new(
        hash_key: HashKey,
        keeper: Keeper,
        shared: Arc<Shared>,
        pieces: Sender<Piece>,
        tape: usize,
        memory_bytes: usize,
    ) -> Self {
        // Half of the memory is for what waits for the disk; contents take half of the other half.
        let parts = if keeper.keeps_any() { 4 } else { 2 };
        Self {
            hash_key,
            verbs: Verbs::new(),
            told: Told::default(),
            keeper,
            shared,
            tape,
            pieces,
            slots: VecDeque::new(),
            base: 0,
            more: 0,
            // A queue that grows is there twice for a moment.
            slots_max: (memory_bytes / parts / size_of::<Slot>() / 3).max(KEYS_MAX),
            block: BlockWriter::default(),
            block_since_ns: 0,
            block_max: memory_bytes / 16,
            statements: Vec::new(),
            statements_made: 0,
            shown: 0,
        }
    }

    /// Whether operations are still recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.recording.load(Relaxed)
    }

    /// Whether nothing is waited for.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes an operation; its number, for its answer.
    pub(crate) fn ask(
        &mut self,
        at_ns: u64,
        client: u32,
        asked: &Asked,
        contents: Option<Box<Contents>>,
    ) -> u64 {
        while self.slots.len() + self.more >= self.slots_max && !self.slots.is_empty() {
            self.release_first();
        }
        let first =
            asked.keys.first.unwrap_or_else(|| Key { hash: self.hash_key.hash(b""), size: 0 });
        let record = Record {
            at_ns,
            key: first.hash,
            key_size: first.size,
            ttl_ms: asked.ttl_ms,
            client,
            value_size: asked.value_size,
            kind: self.verbs.kind(asked.verb),
            outcome: Record::UNANSWERED,
            ..Record::default()
        };
        let rest = asked.keys.more.iter();
        let more: Box<[_]> = rest.map(|key| (*key, asked.value_size)).collect();
        self.more += more.len();
        let (verb, state) = (asked.verb, State::Waiting);
        self.slots.push_back(Slot { record, verb, state, more, contents });
        self.base + self.slots.len() as u64 - 1
    }

    /// How an operation ended. What went to the tape before stays as it is.
    pub(crate) fn answer(&mut self, number: u64, at_ns: u64, outcome: Outcome, sizes: Sizes<'_>) {
        let Some(slot) = self.waiting(number) else { return };
        slot.state = State::Answered;
        slot.record.completed_ns = at_ns;
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

    /// Nobody will answer it any more.
    pub(crate) fn give_up(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Answered;
            self.told.unanswered += 1;
        }
    }

    /// It asked for no answer.
    pub(crate) fn owes_no_answer(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Answered;
        }
    }

    /// It isn't recorded.
    pub(crate) fn withdraw(&mut self, number: u64, why: Withdrawn) {
        match why {
            Withdrawn::Unknown => self.told.unknown_commands += 1,
            Withdrawn::NotCarriedOut => self.told.not_carried_out += 1,
        }
        if let Some(slot) = self.waiting(number) {
            slot.state = State::Withdrawn;
        }
    }

    /// It is part of a transaction.
    pub(crate) fn in_transaction(&mut self, number: u64) {
        if let Some(slot) = self.waiting(number) {
            slot.record.flags |= Record::IN_TRANSACTION;
        }
    }

    /// Sends to the tape what has its answer, or has waited too long for it.
    pub(crate) fn release(&mut self, now_ns: u64) {
        while let Some(first) = self.slots.front() {
            let waited_ns = now_ns.saturating_sub(first.record.at_ns);
            if first.state == State::Waiting && waited_ns < PATIENCE_NS {
                break;
            }
            self.release_first();
        }
        // Once for many: other threads count there, too.
        if self.told.operations > self.shown {
            self.shared.operations.fetch_add(self.told.operations - self.shown, Relaxed);
            self.shown = self.told.operations;
        }
    }

    /// To be called about twice a second.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.release(now_ns);
        if now_ns.saturating_sub(self.block_since_ns) >= BLOCK_NS {
            self.finish_block();
        }
    }

    /// Sends everything to the tape; what is told.
    pub(crate) fn finish(mut self) -> Told {
        while !self.slots.is_empty() {
            self.release_first();
        }
        self.finish_block();
        self.told
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
        self.told.unanswered += u64::from(slot.state == State::Waiting);
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
        self.told.operations += 1;
    }

    /// The number of a statement, told to the disk before the first record of it.
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
        let name = self.verbs.name(verb);
        let kind = KINDS[usize::from(self.verbs.kind(verb))];
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
        self.block.finish(&mut bytes).expect("a vector takes all that is written");
        let length = bytes.len();
        let before = self.shared.unwritten.fetch_add(length, Relaxed);
        if before + length > self.shared.unwritten_max {
            self.shared.unwritten.fetch_sub(length, Relaxed);
            self.told.lost += rows as u64;
            return;
        }
        self.send(Piece::Block { tape: self.tape, bytes });
    }

    fn send(&self, piece: Piece) {
        // It is taken for as long as there is a recorder.
        drop(self.pieces.send(piece));
    }
}
