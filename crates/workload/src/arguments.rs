//! Where the arguments of an operation lie, and which of them is drawn.

use std::ops::Range;

use kvmark_plan::{Each, ValueType};

use crate::cassandra_stress::Partition;
use crate::kept::Kept;

/// The arguments of one operation. Reused from operation to operation.
#[derive(Clone, Debug, Default)]
pub struct ArgumentBuffer {
    /// Bytes of the arguments, one after the other.
    pub bytes: Vec<u8>,
    /// Type and place of each: the operation's, then of each command its own and its items'.
    pub places: Vec<(ValueType, Range<usize>)>,
    /// For each command, where its arguments begin in `places`, and how many items it has.
    pub commands: Vec<(u32, u32)>,
    /// For each command, the record it concerns.
    pub ordinals: Vec<u64>,
    /// The time to live that a tape says of the operation; to be set before they are drawn.
    pub ttl_ms: u64,
    /// Records that are asked of a scan; to be set before.
    pub scan_length: u64,
    /// The key and the value that a tape has of it; to be set before.
    pub kept: Kept,
    /// Records that an insert adds, each once.
    pub inserted: Vec<u64>,
    /// The key of the command's record, where values are made of it.
    pub(crate) key: Vec<u8>,
    /// The partition of cassandra-stress's table that the command is about.
    pub(crate) partition: Partition,
}

impl ArgumentBuffer {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.commands.clear();
        self.ordinals.clear();
    }
}

/// Which element of a statement's operation is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The operation's number.
    pub(crate) number: u64,
    /// The element's place within its operation, from 0.
    pub(crate) place: u64,
    /// Its place in the whole stream, where operations have as many elements as they can have.
    pub(crate) position: u64,
    /// The record's ordinal.
    pub(crate) ordinal: u64,
    /// What a tape says of it.
    pub(crate) ttl_ms: u64,
    /// Records that are asked of a scan.
    pub(crate) scan_length: u64,
}

/// How often an argument is drawn, and its place among those drawn as often.
pub(crate) type ArgumentAt = (Each, usize);

/// The arguments drawn so far, and where those of each kind of element begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier<'a> {
    pub(crate) places: &'a [(ValueType, Range<usize>)],
    /// By [`Each`].
    pub(crate) starts: [usize; 3],
}

impl<'a> Earlier<'a> {
    pub(crate) fn of(&self, (each, slot): ArgumentAt) -> &'a (ValueType, Range<usize>) {
        &self.places[self.starts[each as usize] + slot]
    }
}

/// Where the elements of each kind begin while those of one kind are drawn, the first of them at
/// `here`.
pub(crate) fn starts(each: Each, here: usize, commands: &[(u32, u32)]) -> [usize; 3] {
    let command = commands.last().map_or(0, |(first, _)| *first as usize);
    match each {
        Each::Operation => [0; 3],
        Each::Command => [0, here, here],
        Each::Item => [0, command, here],
    }
}
