//! What a session is asked to do.

use std::ops::Range;

use kvmark_plan::Kind;

/// One operation with its key and values bound. Borrowed from the client's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Number of the operation in its group's stream.
    pub number: u64,
    /// What to do. Never [`Kind::ReadModifyWrite`]: the engine executes its two parts.
    pub kind: Kind,
    /// The record, or the first record of a scan.
    pub key: &'a [u8],
    /// Fields that a read or scan asks for.
    pub columns: Columns,
    /// Fields that an update or insert writes.
    pub values: Values<'a>,
    /// Records that a scan asks for.
    pub scan_length: u64,
    /// Whether the reply must hold the values, to be checked.
    pub wants_values: bool,
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
