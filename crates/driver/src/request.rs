//! What a session is asked to do.

use std::ops::Range;

use kvmark_plan::{Each, Kind, ValueType};

/// One operation with its key and values bound. Borrowed from the client's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Number of the operation in its group's stream.
    pub number: u64,
    /// When it was handed over: microseconds since the Unix epoch by the engine's clock, which is
    /// the same for all workers and never set back. Drivers that give writes a timestamp take it.
    pub at_us: i64,
    /// What to do. Never [`Kind::ReadModifyWrite`]: the engine executes its two parts.
    pub kind: Kind,
    /// The record, or the first record of a scan. A statement has it among its arguments, if it
    /// needs it.
    pub key: &'a [u8],
    /// Fields that a read or scan asks for.
    pub columns: Columns,
    /// Fields that an update or insert writes.
    pub values: Values<'a>,
    /// Records that a scan asks for.
    pub scan_length: u64,
    /// Whether the reply must hold the values, to be checked.
    pub wants_values: bool,
    /// The statement that does it and its arguments; none for the driver's own way. A statement's
    /// values come back as [`crate::Cell`]s with their place in the reply as field.
    pub statement: Option<Call<'a>>,
}

/// A statement with its arguments drawn.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Index into [`crate::Layout::statements`].
    pub statement: u32,
    /// Bytes of all arguments, one after the other.
    pub bytes: &'a [u8],
    /// Type and place in `bytes` of each: those of the operation, then for each command its own and
    /// those of its items in turn; within each, in the order of [`kvmark_plan::Statement`].
    pub places: &'a [(ValueType, Range<usize>)],
    /// For each command, where its arguments begin in `places`, and how many items it has.
    pub commands: &'a [(u32, u32)],
    /// Arguments of an operation, of a command, and of an item.
    pub widths: [u32; 3],
}

/// Where an argument stands: how often it is drawn, and its place among those drawn as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// For how much of an operation it stays the same.
    pub each: Each,
    /// Place among the statement's arguments with the same [`Each`].
    pub place: u32,
}

impl<'a> Call<'a> {
    /// An argument as it is in an item of a command, both counted from 0. The item doesn't matter
    /// for what is drawn per command, nor the command for what is drawn per operation.
    ///
    /// # Panics
    /// When there is no such slot, command or item.
    #[inline]
    #[must_use]
    pub fn argument(&self, slot: Slot, command: usize, item: u32) -> (ValueType, &'a [u8]) {
        let first = |command: usize| self.commands[command].0;
        let place = match slot.each {
            Each::Operation => slot.place,
            Each::Command => first(command) + slot.place,
            Each::Item => first(command) + self.widths[1] + item * self.widths[2] + slot.place,
        };
        let (kind, range) = &self.places[place as usize];
        (*kind, &self.bytes[range.clone()])
    }
}

/// Fields that a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All of them.
    All,
    /// All of them, each named in the request.
    AllByName,
    /// The field of this index.
    One(u32),
}

/// Values to write: bytes of all fields in one buffer, and where each field's value lies in it.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Bytes of the values, one after the other.
    pub bytes: &'a [u8],
    /// Index into [`crate::Layout::field_names`] and place in `bytes`, one per value.
    pub places: &'a [(u32, Range<usize>)],
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Self = Self { bytes: &[], places: &[] };

    /// Field index and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.places.iter().map(move |(field, place)| (*field, &bytes[place.clone()]))
    }
}
