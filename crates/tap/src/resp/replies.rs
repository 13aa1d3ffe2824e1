//! Replies, of which only shapes and lengths are looked at. Memory is bounded: strings cost none,
//! and aggregates in aggregates a counter each.

use crate::word::{Garbage, number, number_line};

/// What of a line is looked at.
const LINE_KEPT: usize = 64;
/// Longest line and longest string that are believed.
const LINE_MAX: u64 = 1 << 20;
const STRING_MAX: i64 = 1 << 40;
/// Most elements of an aggregate, and aggregates within each other.
const ELEMENTS_MAX: i64 = 1 << 32;
const DEPTH_MAX: usize = 64;

/// What an element without elements is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Simple,
    Error,
    Null,
    /// A string of so many bytes.
    Bulk(u64),
    Other,
}

/// The next thing in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// An element, with the first bytes of its line.
    Leaf { depth: usize, leaf: Leaf, text: &'a [u8] },
    /// An aggregate begins.
    Open { depth: usize },
    /// It has ended.
    Close { depth: usize },
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    left: u64,
    /// Of a message that nobody asked for, or a comment on the next element: told to nobody.
    is_silent: bool,
}

/// Where a connection's replies are.
#[derive(Debug)]
pub(super) struct Replies {
    line: [u8; LINE_KEPT],
    line_length: u64,
    /// The line's last byte.
    last: u8,
    /// Bytes of a string and its line end.
    left: u64,
    /// The string's length.
    size: u64,
    is_error: bool,
    frames: Vec<Frame>,
}

impl Replies {
    pub(super) fn new() -> Self {
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

    /// Goes on with the next bytes and tells what is in them.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        tell: &mut impl FnMut(Event<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        while !bytes.is_empty() {
            if self.left == 0
                && self.line_length == 0
                && self.frames.is_empty()
                && let Some((taken, leaf, text)) = whole(bytes)
            {
                tell(Event::Leaf { depth: 0, leaf, text })?;
                bytes = &bytes[taken..];
                continue;
            }
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                bytes = self.string(bytes, taken)?;
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

    /// Passes over bytes of a string, whose line end must be one.
    fn string<'a>(&mut self, bytes: &'a [u8], taken: usize) -> Result<&'a [u8], Garbage> {
        if self.is_error {
            let from = self.size + 2 - self.left;
            let places = self.line.iter_mut().skip(usize::try_from(from).unwrap_or(LINE_KEPT));
            places.zip(&bytes[..taken]).for_each(|(place, byte)| *place = *byte);
        }
        let wrong = Garbage("a string of a reply is longer than it says");
        for (place, byte) in (1..=self.left.min(2)).zip([b'\n', b'\r']) {
            let index = self.left - place;
            if index < taken as u64 && bytes[index as usize] != byte {
                return Err(wrong);
            }
        }
        self.left -= taken as u64;
        Ok(&bytes[taken..])
    }

    fn add_to_line(&mut self, part: &[u8]) -> Result<(), Garbage> {
        let from = self.line_length.min(LINE_KEPT as u64) as usize;
        let length = part.len().min(LINE_KEPT - from);
        self.line[from..from + length].copy_from_slice(&part[..length]);
        self.line_length += part.len() as u64;
        self.last = part.last().copied().unwrap_or(self.last);
        let is_known = b"+-:_,#(!=$*~%|>".contains(&self.line[0]);
        if self.line_length > 0 && !is_known || self.line_length > LINE_MAX {
            return Err(Garbage("a reply isn't the Redis protocol"));
        }
        Ok(())
    }

    fn line_ends(
        &mut self,
        tell: &mut impl FnMut(Event<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        if self.line_length < 2 || self.last != b'\r' {
            return Err(Garbage("a reply isn't the Redis protocol"));
        }
        let line = self.line;
        let kept = (self.line_length - 1).min(LINE_KEPT as u64) as usize;
        let (kind, text) = (line[0], &line[1..kept]);
        self.line_length = 0;
        let leaf = match kind {
            b'+' => Leaf::Simple,
            b'-' => Leaf::Error,
            b'_' => Leaf::Null,
            b':' | b',' | b'#' | b'(' => Leaf::Other,
            _ => {
                let length = number(text).ok_or(Garbage("a length of a reply is no number"))?;
                return self.lengthy(kind, length, tell);
            }
        };
        self.leaf(leaf, text, tell)
    }

    /// A string or an aggregate begins.
    fn lengthy(
        &mut self,
        kind: u8,
        length: i64,
        tell: &mut impl FnMut(Event<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        let is_string = matches!(kind, b'$' | b'!' | b'=');
        if length == -1 && matches!(kind, b'$' | b'*') {
            return self.leaf(Leaf::Null, b"", tell);
        }
        let most = if is_string { STRING_MAX } else { ELEMENTS_MAX };
        if !(0..=most).contains(&length) {
            return Err(Garbage("a length of a reply is none"));
        }
        if is_string {
            (self.size, self.left) = (length as u64, length as u64 + 2);
            self.is_error = kind == b'!';
            return Ok(());
        }
        let left = length as u64 * if matches!(kind, b'%' | b'|') { 2 } else { 1 };
        let is_silent = self.is_silent() || matches!(kind, b'|' | b'>');
        if self.frames.len() >= DEPTH_MAX {
            return Err(Garbage("a reply has more lists within lists than any has"));
        }
        // What only comments is no element of what it stands in.
        if kind == b'|' || kind == b'>' && self.frames.is_empty() {
            if left > 0 {
                self.frames.push(Frame { left, is_silent });
            }
            return Ok(());
        }
        self.count();
        if !is_silent {
            tell(Event::Open { depth: self.frames.len() })?;
        }
        self.frames.push(Frame { left, is_silent });
        self.close(tell)
    }

    fn is_silent(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_silent)
    }

    fn leaf(
        &mut self,
        leaf: Leaf,
        text: &[u8],
        tell: &mut impl FnMut(Event<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
        self.count();
        if !self.is_silent() {
            tell(Event::Leaf { depth: self.frames.len(), leaf, text })?;
        }
        self.close(tell)
    }

    /// One more element of what it stands in.
    fn count(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.left -= 1;
        }
    }

    /// Ends the aggregates that have all their elements.
    fn close(
        &mut self,
        tell: &mut impl FnMut(Event<'_>) -> Result<(), Garbage>,
    ) -> Result<(), Garbage> {
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

/// A string, a number or a word that is there as a whole, as most replies are: how many bytes it
/// takes, and what is told of it. None of anything else.
#[inline]
fn whole(bytes: &[u8]) -> Option<(usize, Leaf, &[u8])> {
    match bytes.first()? {
        b'$' if bytes.starts_with(b"$-1\r\n") => Some((5, Leaf::Null, b"")),
        b'$' => {
            let (length, taken) = number_line(&bytes[1..])?;
            let end = 1 + taken + length;
            let is_whole = bytes.get(end..end + 2)? == b"\r\n";
            is_whole.then_some((end + 2, Leaf::Bulk(length as u64), b""))
        }
        first @ (b'+' | b':') => {
            let end = bytes.iter().take(LINE_KEPT).position(|byte| *byte == b'\n')?;
            let text = bytes[1..end].strip_suffix(b"\r")?;
            let leaf = if *first == b'+' { Leaf::Simple } else { Leaf::Other };
            Some((end + 1, leaf, text))
        }
        _ => None,
    }
}
