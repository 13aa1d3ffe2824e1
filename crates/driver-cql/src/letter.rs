//! A request that stays, and the place for its reply; their memory is used again.

use std::ops::Range;

use kvmark_driver::{Call, Columns, Reply, Request, Values};
use kvmark_plan::{Kind, ValueType};

/// A request of one client's and its reply.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) asked: Asked,
    pub(crate) reply: Reply,
}

impl Letter {
    pub(crate) fn empty() -> Box<Self> {
        Box::new(Self { asked: Asked::nothing(), reply: Reply::default() })
    }
}

/// A copy of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    number: u64,
    kind: Kind,
    key: Vec<u8>,
    columns: Columns,
    value_bytes: Vec<u8>,
    value_places: Vec<(u32, Range<usize>)>,
    scan_length: u64,
    wants_values: bool,
    /// The statement, if it is one, and its widths.
    statement: Option<(u32, [u32; 3])>,
    argument_bytes: Vec<u8>,
    argument_places: Vec<(ValueType, Range<usize>)>,
    commands: Vec<(u32, u32)>,
}

impl Asked {
    fn nothing() -> Self {
        Self {
            number: 0,
            kind: Kind::Read,
            key: Vec::new(),
            columns: Columns::All,
            value_bytes: Vec::new(),
            value_places: Vec::new(),
            scan_length: 0,
            wants_values: false,
            statement: None,
            argument_bytes: Vec::new(),
            argument_places: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Becomes a copy of this request.
    pub(crate) fn copy(&mut self, request: &Request<'_>) {
        let Request { number, kind, key, columns, values, scan_length, .. } = *request;
        (self.number, self.kind, self.columns) = (number, kind, columns);
        (self.scan_length, self.wants_values) = (scan_length, request.wants_values);
        replace(&mut self.key, key);
        replace(&mut self.value_bytes, values.bytes);
        replace(&mut self.value_places, values.places);
        self.statement = request.statement.map(|call| (call.statement, call.widths));
        if let Some(call) = &request.statement {
            replace(&mut self.argument_bytes, call.bytes);
            replace(&mut self.argument_places, call.places);
            replace(&mut self.commands, call.commands);
        }
    }

    /// The request of which it is a copy.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            number: self.number,
            kind: self.kind,
            key: &self.key,
            columns: self.columns,
            values: Values { bytes: &self.value_bytes, places: &self.value_places },
            scan_length: self.scan_length,
            wants_values: self.wants_values,
            statement: self.statement.map(|(statement, widths)| Call {
                statement,
                bytes: &self.argument_bytes,
                places: &self.argument_places,
                commands: &self.commands,
                widths,
            }),
        }
    }
}

fn replace<T: Clone>(kept: &mut Vec<T>, with: &[T]) {
    kept.clear();
    kept.extend_from_slice(with);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_request_whatever_it_was_before() {
        let places = [(ValueType::Text, 0..1), (ValueType::Bytes, 1..3)];
        let call = Call {
            statement: 7,
            bytes: b"abc",
            places: &places,
            commands: &[(0, 0), (1, 0)],
            widths: [0, 1, 0],
        };
        let write = Request {
            number: 3,
            kind: Kind::Insert,
            key: b"key",
            columns: Columns::One(2),
            values: Values { bytes: b"xyz", places: &[(0, 0..1), (1, 1..3)] },
            scan_length: 9,
            wants_values: true,
            statement: Some(call),
        };
        let read = Request { key: b"k", values: Values::NONE, statement: None, ..write };
        let mut asked = Asked::nothing();
        for request in [write, read, write] {
            asked.copy(&request);
            assert_eq!(format!("{:?}", asked.request()), format!("{request:?}"));
        }
    }
}
