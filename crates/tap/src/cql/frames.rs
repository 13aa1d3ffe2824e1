//! A stream cut into frames, in bounded memory.

use kvmark_wire::cql::{BODY_MAX, HEADER, RESULT, Reader, WITH_PAYLOAD, skip_extensions};

use crate::side::Ends;

/// The kept bytes of a frame; the rest of a longer one is only counted.
const KEPT_MAX: usize = 1 << 20;
/// The buffer that a connection keeps between two frames.
const IDLE_MAX: usize = 64 << 10;
/// The bit of a reply in its version.
pub(super) const REPLY: u8 = 0x80;

/// The frames of one direction.
#[derive(Default)]
pub(super) struct Frames {
    kept: Vec<u8>,
    /// Bytes of the frame that aren't received yet.
    left: usize,
    /// Bytes of the frame that weren't kept.
    cut: usize,
}

/// A complete frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) version: u8,
    pub(super) flags: u8,
    pub(super) stream: u16,
    pub(super) opcode: u8,
    contents: &'a [u8],
    /// Bytes that weren't kept at its end.
    pub(super) cut: usize,
}

impl Frames {
    /// Takes bytes up to the end of the next frame. Returns their number, and the complete frame.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame<'_>>), Ends> {
        if self.left == 0 && self.kept.len() >= HEADER {
            self.kept.clear();
            self.kept.shrink_to(IDLE_MAX);
        }
        let mut at = 0;
        if self.kept.len() < HEADER {
            at = bytes.len().min(HEADER - self.kept.len());
            self.kept.extend_from_slice(&bytes[..at]);
            let Some(length) = length(&self.kept) else { return Ok((at, None)) };
            if length > BODY_MAX {
                return Err(Ends::Garbage("a frame is longer than CQL's protocol allows"));
            }
            (self.left, self.cut) = (length, 0);
        }
        let more = self.left.min(bytes.len() - at);
        let kept = more.min(KEPT_MAX.saturating_sub(self.kept.len()));
        self.kept.extend_from_slice(&bytes[at..at + kept]);
        self.cut += more - kept;
        self.left -= more;
        let frame = (self.left == 0).then(|| Frame::read(&self.kept, self.cut));
        Ok((at + more, frame))
    }
}

/// The length of a frame's body, if the header is complete.
pub(super) fn length(frame: &[u8]) -> Option<usize> {
    Reader(frame.get(HEADER - 4..)?).int().map(|length| length as u32 as usize)
}

impl<'a> Frame<'a> {
    /// Reads a frame of which `cut` bytes are missing at the end.
    pub(super) fn read(bytes: &'a [u8], cut: usize) -> Self {
        let (header, contents) = bytes.split_at(HEADER);
        let stream = u16::from_be_bytes([header[2], header[3]]);
        Self { version: header[0], flags: header[1], stream, opcode: header[4], contents, cut }
    }

    /// The length of the contents, including those that weren't kept.
    pub(super) fn length(&self) -> usize {
        self.contents.len() + self.cut
    }

    /// The body without extensions; `None` if it is truncated.
    pub(super) fn body(&self) -> Option<&'a [u8]> {
        // Of a request the flag of a trace only asks for one.
        let flags = if self.version & REPLY == 0 { self.flags & WITH_PAYLOAD } else { self.flags };
        skip_extensions(flags, self.contents, |_| ())
    }

    /// What precedes the body.
    pub(super) fn extensions(&self) -> Option<&'a [u8]> {
        self.contents.get(..self.contents.len() - self.body()?.len())
    }

    /// The body of a result of this kind.
    pub(super) fn result(&self, kind: i32) -> Option<Reader<'a>> {
        let mut body = Reader(self.body().filter(|_| self.opcode == RESULT)?);
        (body.int()? == kind).then_some(body)
    }
}

/// A long string. A text that wasn't kept to its end is as long as it was kept.
pub(super) fn text<'a>(body: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(body.int()?).ok()?;
    body.take(length.min(body.0.len()))
}
