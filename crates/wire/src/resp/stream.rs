//! A stream of replies as events with shapes and lengths. Memory is bounded: the contents of
//! strings aren't kept, and a nested aggregate takes one counter.

use super::{Head, head, short_bulk};
use crate::{Malformed, skip_value};

/// Bytes of a line that are kept.
const LINE_KEPT: usize = 64;
/// Longest line that is accepted.
const LINE_MAX: u64 = 1 << 20;
/// Greatest number of nested aggregates.
const DEPTH_MAX: usize = 64;

const NO_REPLY: Malformed = Malformed("a reply isn't the Redis protocol");

/// Takes the events of replies.
pub trait Tell: FnMut(Event<'_>) -> Result<(), Malformed> {}

impl<F: FnMut(Event<'_>) -> Result<(), Malformed>> Tell for F {}

/// An element that isn't an aggregate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaf {
    /// A status, such as `OK`.
    Simple,
    /// An error.
    Error,
    /// A null.
    #[default]
    Null,
    /// A string of this length.
    Bulk(u64),
    /// A number, a boolean or another short value.
    Other,
}

/// An event within a reply. `depth` counts the aggregates around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An element, with the first bytes of its line.
    Leaf {
        /// Aggregates around it.
        depth: usize,
        /// Its kind.
        leaf: Leaf,
        /// The first bytes of its line.
        text: &'a [u8],
    },
    /// An aggregate begins.
    Open {
        /// Aggregates around it.
        depth: usize,
    },
    /// An aggregate ends.
    Close {
        /// Aggregates around it.
        depth: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    left: u64,
    /// Whether it is a push message or an attribute, for which there are no events.
    is_silent: bool,
}

/// The state of a connection's replies.
#[derive(Debug)]
pub struct Replies {
    line: [u8; LINE_KEPT],
    line_length: u64,
    /// The line's last byte.
    last: u8,
    /// Expected bytes of a string and its line end.
    left: u64,
    /// The string's length.
    size: u64,
    is_error: bool,
    frames: Vec<Frame>,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            line: [0; LINE_KEPT],
            line_length: 0,
            last: 0,
            left: 0,
            size: 0,
            is_error: false,
            frames: Vec::new(),
        }
    }
}

impl Replies {
    /// Reads the next bytes and passes their events to `tell`.
    ///
    /// # Errors
    /// The bytes don't follow the protocol, or `tell` failed.
    pub fn read(&mut self, mut bytes: &[u8], tell: &mut impl Tell) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            if self.left == 0
                && self.line_length == 0
                && self.frames.is_empty()
                && let Some((taken, leaf, text)) = short_reply(bytes)
            {
                tell(Event::Leaf { depth: 0, leaf, text })?;
                bytes = &bytes[taken..];
                continue;
            }
            if self.left > 0 {
                bytes = self.string(bytes)?;
                if self.left == 0 {
                    let leaf = if self.is_error { Leaf::Error } else { Leaf::Bulk(self.size) };
                    let kept = self.size.min(LINE_KEPT as u64) as usize;
                    let line = self.line;
                    self.leaf(leaf, if self.is_error { &line[..kept] } else { b"" }, tell)?;
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            self.add_to_line(part)?;
            bytes = &bytes[part.len()..];
            if end.is_some() {
                bytes = &bytes[1..];
                self.line_ends(tell)?;
            }
        }
        Ok(())
    }

    /// Skips bytes of a string and checks its line end.
    fn string<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let why = "a string of a reply is longer than its header states";
        let (taken, left) = skip_value(bytes, self.left, why)?;
        if self.is_error {
            let from = self.size + 2 - self.left;
            let places = self.line.iter_mut().skip(usize::try_from(from).unwrap_or(LINE_KEPT));
            places.zip(&bytes[..taken]).for_each(|(place, byte)| *place = *byte);
        }
        self.left = left;
        Ok(&bytes[taken..])
    }

    fn add_to_line(&mut self, part: &[u8]) -> Result<(), Malformed> {
        let from = self.line_length.min(LINE_KEPT as u64) as usize;
        let length = part.len().min(LINE_KEPT - from);
        self.line[from..from + length].copy_from_slice(&part[..length]);
        self.line_length += part.len() as u64;
        self.last = part.last().copied().unwrap_or(self.last);
        let is_known = b"+-:_,#(!=$*~%|>".contains(&self.line[0]);
        if self.line_length > 0 && !is_known || self.line_length > LINE_MAX {
            return Err(NO_REPLY);
        }
        Ok(())
    }

    fn line_ends(&mut self, tell: &mut impl Tell) -> Result<(), Malformed> {
        if self.line_length < 2 || self.last != b'\r' {
            return Err(NO_REPLY);
        }
        let line = self.line;
        let kept = (self.line_length - 1).min(LINE_KEPT as u64) as usize;
        self.line_length = 0;
        let (kind, text) = (line[0], &line[1..kept]);
        match head(&line[..kept]).map_err(|_| NO_REPLY)? {
            Head::Line => {
                let leaf = match kind {
                    b'+' => Leaf::Simple,
                    b'-' => Leaf::Error,
                    b'_' | b'$' | b'*' | b'!' | b'=' => Leaf::Null,
                    _ => Leaf::Other,
                };
                self.leaf(leaf, text, tell)
            }
            Head::Bytes(length) => {
                (self.size, self.left) = (length as u64, length as u64 + 2);
                self.is_error = kind == b'!';
                Ok(())
            }
            Head::Elements(count) => self.open(count, kind == b'>', tell),
            // Attributes aren't an element of the aggregate around them.
            Head::Attributes(count) => self.push(count, true, tell),
        }
    }

    /// An aggregate begins. A push message outside a reply isn't an element of one.
    fn open(&mut self, count: u64, is_push: bool, tell: &mut impl Tell) -> Result<(), Malformed> {
        let is_silent = self.is_silent() || is_push;
        if !is_push || !self.frames.is_empty() {
            self.count();
        }
        if !is_silent {
            tell(Event::Open { depth: self.frames.len() })?;
        }
        self.push(count, is_silent, tell)
    }

    fn push(&mut self, left: u64, is_silent: bool, tell: &mut impl Tell) -> Result<(), Malformed> {
        if self.frames.len() >= DEPTH_MAX {
            return Err(Malformed("a reply has too many nested lists"));
        }
        self.frames.push(Frame { left, is_silent });
        self.close(tell)
    }

    fn is_silent(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_silent)
    }

    fn leaf(&mut self, leaf: Leaf, text: &[u8], tell: &mut impl Tell) -> Result<(), Malformed> {
        self.count();
        if !self.is_silent() {
            tell(Event::Leaf { depth: self.frames.len(), leaf, text })?;
        }
        self.close(tell)
    }

    /// Counts an element of the innermost aggregate.
    fn count(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.left -= 1;
        }
    }

    /// Closes the aggregates that are complete.
    fn close(&mut self, tell: &mut impl Tell) -> Result<(), Malformed> {
        while let Some(frame) = self.frames.last()
            && frame.left == 0
        {
            let is_silent = frame.is_silent;
            self.frames.pop();
            if !is_silent {
                tell(Event::Close { depth: self.frames.len() })?;
            }
        }
        Ok(())
    }
}

/// A complete string, number or word, as most replies are: its length, its kind and the first bytes
/// of its line. `None` for any other reply.
#[inline]
fn short_reply(bytes: &[u8]) -> Option<(usize, Leaf, &[u8])> {
    match bytes.first()? {
        b'$' if bytes.starts_with(b"$-1\r\n") => Some((5, Leaf::Null, b"")),
        b'$' => {
            let (begin, end) = short_bulk(bytes)?;
            Some((end + 2, Leaf::Bulk((end - begin) as u64), b""))
        }
        first @ (b'+' | b':') => {
            let end = bytes.iter().take(LINE_KEPT).position(|byte| *byte == b'\n')?;
            let text = bytes[1..end].strip_suffix(b"\r")?;
            // A malformed number is reported like one that arrives in pieces.
            head(&bytes[..end - 1]).ok()?;
            let leaf = if *first == b'+' { Leaf::Simple } else { Leaf::Other };
            Some((end + 1, leaf, text))
        }
        _ => None,
    }
}
