//! A stream of replies as events. Memory is bounded: values aren't kept.

use super::{LINE_MAX, Line, read};
use crate::{Malformed, skip_value};

/// The reason for a value whose line end isn't at its place.
pub const LONG_VALUE: &str = "a value is longer than its line states";

/// Takes the events of replies.
pub trait Tell: FnMut(Event<'_>) -> Result<(), Malformed> {}

impl<F: FnMut(Event<'_>) -> Result<(), Malformed>> Tell for F {}

/// A line of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The value of a key.
    Value {
        /// The key.
        key: &'a [u8],
        /// Bytes of the value.
        length: usize,
    },
    /// The value of a meta command.
    Meta {
        /// Bytes of the value.
        length: usize,
    },
    /// Any other line.
    Line(&'a [u8]),
}

/// The state of a connection's replies.
#[derive(Debug, Default)]
pub struct Replies {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Expected bytes of a value and its line end.
    left: u64,
}

impl Replies {
    /// Reads the next bytes and passes their events to `tell`, a value's once its line is complete.
    ///
    /// # Errors
    /// The bytes don't follow the protocol, or `tell` failed.
    pub fn read(&mut self, mut bytes: &[u8], tell: &mut impl Tell) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (taken, left) = skip_value(bytes, self.left, LONG_VALUE)?;
                self.left = left;
                bytes = &bytes[taken..];
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            bytes = rest;
            if self.line.len() + part.len() > LINE_MAX {
                return Err(Malformed("a line of a reply is too long"));
            }
            if end.is_some() && self.line.is_empty() {
                self.line_ends(part, tell)?;
                continue;
            }
            self.line.extend_from_slice(part);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.line_ends(&line, tell)?;
            }
        }
        Ok(())
    }

    fn line_ends(&mut self, line: &[u8], tell: &mut impl Tell) -> Result<(), Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed("a line of a reply has no end"))?;
        let (event, bytes) = match read(line) {
            Ok(Line::Item { key, length, .. }) => (Event::Value { key, length }, length),
            Ok(Line::Block(length)) => (Event::Meta { length }, length),
            Err(_) if line.starts_with(b"VALUE ") || line.starts_with(b"VA ") => {
                return Err(Malformed("a value of a reply has no length"));
            }
            _ => return tell(Event::Line(line)),
        };
        self.left = bytes as u64 + 2;
        tell(event)
    }
}
