//! Replies: lines, some with a value behind them. Memory is bounded: values cost none.

use super::requests::passed;
use crate::word::{Garbage, number};

/// Longest line that is believed.
const LINE_MAX: usize = 8 << 10;
const VALUE_MAX: i64 = 1 << 32;

/// A line of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The value of a key, of so many bytes.
    Value { key: &'a [u8], bytes: u64 },
    /// A value of a meta command.
    Meta { bytes: u64 },
    /// Any other line.
    Line(&'a [u8]),
}

/// Where a connection's replies are.
#[derive(Debug)]
pub(super) struct Replies {
    /// Of a line that isn't there as a whole.
    line: Vec<u8>,
    /// Bytes of a value and its line end.
    left: u64,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self { line: Vec::new(), left: 0 }
    }

    /// Goes on with the next bytes and tells what is in them. A value is told once its line is
    /// there.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        tell: &mut impl FnMut(Said<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (taken, left) = passed(bytes, self.left)?;
                self.left = left;
                bytes = &bytes[taken..];
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            bytes = rest;
            if self.line.len() + part.len() > LINE_MAX {
                return Err(Garbage("a line of a reply is longer than any can be"));
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

    fn line_ends(
        &mut self,
        line: &[u8],
        tell: &mut impl FnMut(Said<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        let line = line.strip_suffix(b"\r\n").ok_or(Garbage("a line of a reply has no end"))?;
        let mut words = line.split(|byte| *byte == b' ');
        let length = |word: Option<&[u8]>| {
            let said = word.and_then(number).filter(|said| (0..=VALUE_MAX).contains(said));
            said.map(|said| said as u64).ok_or(Garbage("a value of a reply has no length"))
        };
        match words.next() {
            Some(b"VALUE") => {
                let key = words.next().unwrap_or_default();
                let bytes = length(words.nth(1))?;
                self.left = bytes + 2;
                tell(Said::Value { key, bytes })
            }
            Some(b"VA") => {
                let bytes = length(words.next())?;
                self.left = bytes + 2;
                tell(Said::Meta { bytes })
            }
            _ => tell(Said::Line(line)),
        }
    }
}
