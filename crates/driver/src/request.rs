//! The requests to a session.

use std::ops::Range;

use kvmark_plan::{Each, Kind, Outcome, TAG_LENGTH, ValueType, tag_length};

/// One operation with its key and values bound. Borrowed from the client's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Number of the operation in its group's stream.
    pub number: u64,
    /// When it was passed on: microseconds since the Unix epoch by the engine's clock, which all
    /// workers share and which never goes back. Drivers use it as the timestamp of writes.
    pub at_us: i64,
    /// What to do. Never [`Kind::ReadModifyWrite`]: the engine executes its two parts.
    pub kind: Kind,
    /// The record, or the first record of a scan. A statement has it among its arguments if needed.
    pub key: &'a [u8],
    /// Fields that a read or scan requests.
    pub columns: Columns,
    /// Fields that an update or insert writes.
    pub values: Values<'a>,
    /// Number of records of a scan.
    pub scan_length: u64,
    /// Whether the reply must contain the values, for a check.
    pub wants_values: bool,
    /// The properties that a record must have when it is read; `None` for no check.
    pub expected: Option<&'a Expected>,
    /// The statement with its arguments; `None` for the driver's own way. A statement's values are
    /// returned as [`crate::Cell`]s with their index in the reply as field.
    pub statement: Option<Call<'a>>,
}

/// The properties that a record must have when it is read, without its values. The read of a record
/// without these properties is a [`Outcome::Mismatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Fields that come back; none for any number.
    pub fields: Option<u32>,
    /// Bytes of each value, if constant.
    pub length: Option<u64>,
    /// The start of each value, up to [`tag_length`].
    pub tag: Option<[u8; TAG_LENGTH]>,
    /// Whether values must exist and contain the complete tag, because a part of it proves nothing.
    pub proves: bool,
}

impl Expected {
    /// Starts the comparison of a record.
    #[must_use]
    #[inline]
    pub const fn compare(&self) -> Comparison {
        Comparison { expected: *self, seen: 0, fits: true }
    }

    /// Whether a value has the expected properties.
    #[must_use]
    #[inline]
    pub fn fits(&self, value: &[u8]) -> bool {
        let has_length = self.length.is_none_or(|length| length == value.len() as u64);
        let has_tag = self.tag.is_none_or(|tag| {
            let tagged = tag_length(value.len());
            if tagged == TAG_LENGTH {
                value.first_chunk() == Some(&tag)
            } else {
                !self.proves && value[..tagged] == tag[..tagged]
            }
        });
        has_length && has_tag
    }
}

/// A record that is compared value by value.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    expected: Expected,
    seen: u32,
    fits: bool,
}

impl Comparison {
    /// Takes the next value.
    #[inline]
    pub fn see(&mut self, value: &[u8]) {
        self.seen += 1;
        self.fits &= self.expected.fits(value);
    }

    /// The outcome of the read after all values of the record.
    #[must_use]
    #[inline]
    pub const fn outcome(&self) -> Outcome {
        let is_whole = match self.expected.fields {
            Some(fields) => fields == self.seen,
            None => self.seen > 0 || !self.expected.proves,
        };
        if self.fits && is_whole { Outcome::Ok } else { Outcome::Mismatch }
    }
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

/// The position of an argument: its scope, and its index among the arguments of that scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its scope within an operation.
    pub each: Each,
    /// Index among the statement's arguments with the same [`Each`].
    pub place: u32,
}

impl<'a> Call<'a> {
    /// The value of an argument in an item of a command, both counted from 0. The item is ignored
    /// for arguments drawn per command, and the command for arguments drawn per operation.
    ///
    /// # Panics If there is no such slot, command or item.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// All of them.
    #[default]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(expected: Expected, values: &[&str]) -> Outcome {
        let mut comparison = expected.compare();
        values.iter().for_each(|value| comparison.see(value.as_bytes()));
        comparison.outcome()
    }

    #[test]
    fn a_record_is_as_expected_in_the_number_the_lengths_and_the_tags_of_its_values() {
        let tag = Some(*b"ABCDEFGH");
        let long = ["ABCDEFGH12345678", "ABCDEFGHxxxxxxxx"];
        let expected = Expected { fields: Some(2), length: Some(16), tag, proves: false };
        assert_eq!(outcome(expected, &long), Outcome::Ok);
        for wrong in [
            &long[..1],
            &[long[0], "ABCDEFGH1234567"],
            &[long[0], "ABCDEFGX12345678"],
            &[long[0], ""],
            &[long[0], long[1], long[1]],
        ] {
            assert_eq!(outcome(expected, wrong), Outcome::Mismatch, "{wrong:?}");
        }
        let any = Expected { fields: None, length: None, tag, proves: false };
        assert_eq!(outcome(any, &["", "x", "Ax", "ABx", "ABCDEFG12345678"]), Outcome::Ok);
        assert_eq!(outcome(any, &["xx"]), Outcome::Mismatch);
        assert_eq!(outcome(Expected { tag: None, ..any }, &["anything"]), Outcome::Ok);
        let proof = Expected { proves: true, ..any };
        assert_eq!(outcome(proof, &long), Outcome::Ok);
        for nothing_proven in [&[][..], &["x"], &[""], &[long[0], "ABCDEFG"]] {
            assert_eq!(outcome(proof, nothing_proven), Outcome::Mismatch, "{nothing_proven:?}");
        }
    }
}
