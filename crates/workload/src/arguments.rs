//! The arguments of an operation and their places.

use std::ops::Range;

use kvmark_plan::{Each, ValueType};

use kvmark_stress_rows::Partition;

/// The arguments of one operation. The memory is reused.
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
    /// The operation's data on a tape. Must be set before the arguments are drawn.
    pub taped: TapedContent,
    /// The records that an insert adds, each once.
    pub inserted: Vec<u64>,
    /// The key of the command's record, if values depend on it.
    pub(crate) key: Vec<u8>,
    /// The partition of cassandra-stress's table that the command concerns.
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

/// The element of a statement's operation that is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The operation's number.
    pub(crate) number: u64,
    /// The element's place within its operation, from 0.
    pub(crate) place: u64,
    /// Its position in the stream if each operation had the largest number of elements.
    pub(crate) position: u64,
    /// The record's ordinal.
    pub(crate) ordinal: u64,
}

/// The scope of an argument, and its index among the arguments of that scope.
pub(crate) type ArgumentAt = (Each, usize);

/// The arguments drawn so far, and the start of each scope's arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlierArguments<'a> {
    pub(crate) places: &'a [(ValueType, Range<usize>)],
    /// By [`Each`].
    pub(crate) starts: [usize; 3],
}

impl<'a> EarlierArguments<'a> {
    pub(crate) const NONE: Self = Self { places: &[], starts: [0; 3] };

    pub(crate) fn of(&self, (each, slot): ArgumentAt) -> &'a (ValueType, Range<usize>) {
        &self.places[self.starts[each as usize] + slot]
    }
}

/// The start of each scope's arguments while one scope is drawn, which starts at `here`.
pub(crate) fn starts(each: Each, here: usize, commands: &[(u32, u32)]) -> [usize; 3] {
    let command = commands.last().map_or(0, |(first, _)| *first as usize);
    match each {
        Each::Operation => [0; 3],
        Each::Command => [0, here, here],
        Each::Item => [0, command, here],
    }
}

/// The data of an operation on a tape, with key and value if the tape has them. The memory is
/// reused.
#[derive(Clone, Debug, Default)]
pub struct TapedContent {
    /// Time to live.
    pub ttl_ms: u64,
    /// Number of records of a scan.
    pub scan_length: u64,
    bytes: Vec<u8>,
    /// End of the key.
    key: Option<usize>,
    has_value: bool,
}

impl TapedContent {
    /// Replaces key and value.
    pub fn set(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.key = key.map(<[u8]>::len);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.has_value = value.is_some();
    }

    /// Whether there is neither a key nor a value.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.key.is_none() && !self.has_value
    }

    /// The key; `None` if the ordinal determines it.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.map(|end| &self.bytes[..end])
    }

    /// The value of each field; `None` if values are generated.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.has_value.then(|| &self.bytes[self.key.unwrap_or(0)..])
    }
}
