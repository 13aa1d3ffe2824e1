//! What a run wrote, remembered until it is read back.
//!
//! For each record the writes are kept that its fields may hold at the end: of the acknowledged
//! ones those that no other acknowledged write began after, and all whose outcome isn't known, for
//! these may have taken effect at any time since. A value isn't kept: it can be made again from the
//! write's stream and number.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvmark_driver::Reply;
use kvmark_plan::Outcome;
use kvmark_workload::Stream;

/// Locks that workers share: enough that two seldom want the same.
const SHARDS: u64 = 256;

/// A write that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Index of its stream, by [`Remembered::add_stream`].
    pub(crate) stream: u32,
    /// The operation's number in its stream.
    pub(crate) number: u64,
    /// The command's place in its operation.
    pub(crate) place: u32,
    pub(crate) put: Put,
    pub(crate) issued_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) acknowledged: bool,
}

/// What a write does to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Writes all fields.
    All,
    /// Writes one field.
    One(u32),
    /// Removes the record.
    Removed,
}

impl Put {
    const fn concerns(self, field: u32) -> bool {
        match self {
            Self::All | Self::Removed => true,
            Self::One(own) => own == field,
        }
    }

    /// Whether nothing is left of the other once this is done.
    fn covers(self, other: Self) -> bool {
        matches!(self, Self::All | Self::Removed) || self == other
    }
}

impl Write {
    /// Whether nothing of an earlier write can be left where this one wrote.
    fn replaces(&self, other: &Self) -> bool {
        self.acknowledged && other.acknowledged && other.completed_ns < self.issued_ns
    }
}

/// The writes of one record.
#[derive(Debug)]
enum History {
    One(Write),
    Several(Vec<Write>),
}

impl History {
    fn writes(&self) -> &[Write] {
        match self {
            Self::One(write) => std::slice::from_ref(write),
            Self::Several(writes) => writes,
        }
    }

    fn add(&mut self, write: Write) {
        match self {
            Self::One(one) if write.put.covers(one.put) && write.replaces(one) => *one = write,
            Self::One(one) => *self = Self::Several(vec![*one, write]),
            Self::Several(writes) => {
                writes.retain(|old| !(write.put.covers(old.put) && write.replaces(old)));
                writes.push(write);
            }
        }
    }
}

/// What reading a record back says of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Each field holds an acknowledged write, or nothing acknowledged had to be there.
    Intact,
    /// The same, but a field holds a write whose outcome wasn't known.
    Unacknowledged,
    /// The record is gone though an acknowledged write put it there.
    Missing,
    /// A field holds something else than its last acknowledged writes.
    Stale,
}

impl Found {
    /// As the outcome of the read.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::Intact | Self::Unacknowledged => Outcome::Ok,
            Self::Missing => Outcome::Miss,
            Self::Stale => Outcome::Mismatch,
        }
    }
}

/// All writes of a run that may still be seen. Shared by the workers.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    shards: Vec<Mutex<HashMap<u64, History>>>,
    streams: Mutex<Vec<Stream>>,
}

impl Remembered {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), ..Self::default() }
    }

    /// Keeps the stream that writes are made again from.
    pub(crate) fn add_stream(&self, stream: &Stream) -> u32 {
        let mut streams = lock(&self.streams);
        streams.push(stream.clone());
        streams.len() as u32 - 1
    }

    pub(crate) fn add(&self, ordinal: u64, write: Write) {
        let mut shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        match shard.get_mut(&ordinal) {
            Some(history) => history.add(write),
            None => drop(shard.insert(ordinal, History::One(write))),
        }
    }

    /// The records that were written, in order.
    pub(crate) fn ordinals(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| all.extend(lock(shard).keys()));
        all.sort_unstable();
        all
    }

    /// What a reply says of a record; `fields` are those of the reply's cells, in order.
    pub(crate) fn judge(
        &self,
        ordinal: u64,
        key: &[u8],
        fields: impl Iterator<Item = u32>,
        reply: Option<&Reply>,
    ) -> Found {
        let shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        let Some(history) = shard.get(&ordinal) else { return Found::Intact };
        let writes = history.writes();
        let Some(reply) = reply else { return judge_absence(writes) };
        let streams = lock(&self.streams);
        let mut found = Found::Intact;
        let mut value = Vec::new();
        for (cell, field) in reply.cells.iter().zip(fields) {
            let bytes = reply.bytes_of(cell);
            let mut holds = |write: &&Write| {
                value.clear();
                let stream = &streams[write.stream as usize];
                stream.append_value(write.number, write.place.into(), field, key, &mut value);
                write.put != Put::Removed && value == bytes
            };
            let of_field = || writes.iter().filter(|write| write.put.concerns(field));
            let last = |write: &&Write| !of_field().any(|other| other.replaces(write));
            match of_field().filter(last).filter(|write| holds(write)).max_by_key(acknowledged) {
                Some(write) if write.acknowledged => {}
                Some(_) => found = Found::Unacknowledged,
                None if of_field().any(|write| write.acknowledged) => return Found::Stale,
                None => {}
            }
        }
        found
    }
}

fn acknowledged(write: &&Write) -> bool {
    write.acknowledged
}

/// A record that isn't there: right when a removal may be the last of its writes.
fn judge_absence(writes: &[Write]) -> Found {
    let put = |write: &&Write| write.put != Put::Removed && write.acknowledged;
    let removals = || writes.iter().filter(|write| write.put == Put::Removed);
    let gone = |write: &Write| removals().any(|removal| !write.replaces(removal));
    match writes.iter().filter(put).all(gone) {
        true if removals().any(|removal| removal.acknowledged) => Found::Intact,
        true if writes.iter().any(|write| put(&write)) => Found::Unacknowledged,
        true => Found::Intact,
        false => Found::Missing,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
