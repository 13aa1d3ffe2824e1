//! Frames of a node, and their compression.
//!
//! Source: Apache Cassandra, `doc/native_protocol_v4.spec`.

use std::borrow::Cow;

use kvmark_plan::Outcome;
pub(crate) use kvmark_wire::cql::{
    ANSWER, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, BATCH, ERROR, EXECUTE, HEADER, Note,
    OPTIONS, PREPARE, QUERY, READY, REGISTER, RESULT, Reader, STARTUP, SUPPORTED, VERSION, begin,
    put_long, put_short, set_length, set_stream,
};
use kvmark_wire::cql::{
    BODY_MAX, COMPRESSED, TRACED, WITH_PAYLOAD, WITH_WARNINGS, skip_extensions,
};

use crate::failure::{Failure, impossible};

/// Greatest expansion of a compressed body, that of LZ4; the one of Snappy is less.
const EXPANSION_MAX: usize = 255;
/// The stream of events, which answer no request.
const EVENTS: u16 = u16::MAX;

/// The compression of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Lz4,
    Snappy,
}

/// A complete frame of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    flags: u8,
    pub(crate) stream: u16,
    pub(crate) opcode: u8,
    body: &'a [u8],
}

/// Length of the first frame, if it is complete. An invalid frame is rejected by its header.
#[inline]
pub(crate) fn scan(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    if bytes.first().is_some_and(|version| *version != ANSWER) {
        let text = format!("the node doesn't answer in version {VERSION} of CQL's protocol");
        return Err(Failure::new(Outcome::Protocol, text));
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let [.., a, b, c, d] = *header;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > BODY_MAX {
        let text = format!("the node sends a frame of {length} bytes, more than it may have");
        return Err(Failure::new(Outcome::Protocol, text));
    }
    let length = HEADER + length;
    Ok((bytes.len() >= length).then_some(length))
}

impl<'a> Frame<'a> {
    /// Reads a complete frame, see [`scan`].
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Self {
        let (header, body) = bytes.split_at(HEADER);
        let stream = u16::from_be_bytes([header[2], header[3]]);
        Self { flags: header[1], stream, opcode: header[4], body }
    }

    /// Whether it is an event.
    #[inline]
    pub(crate) fn is_event(&self) -> bool {
        self.stream == EVENTS
    }

    /// The decompressed body without extensions, which are passed to `noted`.
    #[inline]
    pub(crate) fn body(
        &self,
        compression: Option<Compression>,
        noted: impl FnMut(Note<'_>),
    ) -> Result<Cow<'a, [u8]>, Failure> {
        if self.flags & (COMPRESSED | TRACED | WITH_PAYLOAD | WITH_WARNINGS) == 0 {
            return Ok(Cow::Borrowed(self.body));
        }
        self.opened(compression, noted)
    }

    #[cold]
    fn opened(
        &self,
        compression: Option<Compression>,
        noted: impl FnMut(Note<'_>),
    ) -> Result<Cow<'a, [u8]>, Failure> {
        if self.flags & COMPRESSED == 0 {
            let rest = skip_extensions(self.flags, self.body, noted);
            return rest.map(Cow::Borrowed).ok_or_else(cut_off);
        }
        let Some(compression) = compression else {
            return Err(impossible("it is compressed without an agreement"));
        };
        let mut body = compression.decompress(self.body)?;
        let rest = skip_extensions(self.flags, &body, noted).ok_or_else(cut_off)?.len();
        body.drain(..body.len() - rest);
        Ok(Cow::Owned(body))
    }
}

impl Compression {
    /// Its name in the protocol.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// Appends a compressed body. That of LZ4 follows its uncompressed length.
    pub(crate) fn compress(self, body: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
        let packed = match self {
            Self::Lz4 => {
                output.extend_from_slice(&(body.len() as u32).to_be_bytes());
                lz4_flex::compress(body)
            }
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(body)
                .map_err(|error| Failure::new(Outcome::Refused, error.to_string()))?,
        };
        output.extend_from_slice(&packed);
        Ok(())
    }

    /// The uncompressed body. Its stated length is checked, because the decoder allocates it.
    fn decompress(self, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let stated = match self {
            Self::Lz4 => Reader(body).int().map(|length| length as u32 as usize),
            Self::Snappy => snap::raw::decompress_len(body).ok(),
        };
        let stated = stated.ok_or_else(cut_off)?;
        if stated > body.len().saturating_mul(EXPANSION_MAX).min(BODY_MAX) {
            return Err(impossible("it states an impossible length"));
        }
        match self {
            Self::Lz4 => lz4_flex::decompress(&body[4..], stated).map_err(impossible),
            Self::Snappy => snap::raw::Decoder::new().decompress_vec(body).map_err(impossible),
        }
    }
}

/// The failure of a truncated reply.
pub(crate) fn cut_off() -> Failure {
    impossible("it ends too early")
}

/// Marks the body of a frame as compressed.
pub(crate) fn set_compressed(frame: &mut [u8]) {
    frame[1] |= COMPRESSED;
}

/// Appends a request to prepare a statement.
pub(crate) fn prepare(output: &mut Vec<u8>, cql: &str, stream: u16) {
    let from = output.len();
    begin(output, PREPARE);
    put_long(output, cql.as_bytes());
    set_length(&mut output[from..]);
    set_stream(&mut output[from..], stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![ANSWER, flags, 0, 7, RESULT];
        put_long(&mut frame, body);
        frame
    }

    #[test]
    fn a_frame_is_complete_with_its_last_byte() {
        let bytes = [frame(0, b"abc"), frame(0, b"")].concat();
        for end in 0..12 {
            assert_eq!(scan(&bytes[..end]).unwrap(), None);
        }
        assert_eq!(scan(&bytes).unwrap(), Some(12));
        assert_eq!(scan(&bytes[12..]).unwrap(), Some(9));
    }

    #[test]
    fn an_invalid_frame_is_rejected_at_its_first_byte_and_an_overlong_one_at_its_header() {
        assert_eq!(scan(b"H").unwrap_err().outcome, Outcome::Protocol);
        let long = [ANSWER, 0, 0, 0, RESULT, 0x10, 0, 0, 1];
        assert_eq!(scan(&long).unwrap_err().outcome, Outcome::Protocol);
    }

    #[test]
    fn extensions_are_skipped_and_reported() {
        let mut body = vec![1; 16];
        body.extend_from_slice(&2_u16.to_be_bytes());
        put_short(&mut body, b"one");
        put_short(&mut body, b"two");
        body.extend_from_slice(&1_u16.to_be_bytes());
        put_short(&mut body, b"key");
        put_long(&mut body, b"value");
        body.extend_from_slice(b"answer");
        let bytes = frame(TRACED | WITH_WARNINGS | WITH_PAYLOAD, &body);
        let mut notes = Vec::new();
        let frame = Frame::read(&bytes);
        let answer = frame.body(None, |note| notes.push(format!("{note:?}"))).unwrap();
        assert_eq!(*answer, *b"answer");
        let payload = format!("{:?}", Note::Payload(b"key", b"value"));
        assert_eq!(notes, [r#"Warning("one")"#, r#"Warning("two")"#, &payload]);
        for end in 0..body.len() - b"answer".len() {
            assert!(skip_extensions(0x0e, &body[..end], |_| ()).is_none());
        }
    }

    #[test]
    fn lz4_begins_with_the_uncompressed_length() {
        let mut body = Vec::new();
        Compression::Lz4.compress(b", World!", &mut body).unwrap();
        assert_eq!(body, b"\0\0\0\x08\x80, World!");
    }

    #[test]
    fn a_compressed_answer_needs_the_compression_that_was_agreed() {
        let mut body = Vec::new();
        Compression::Lz4.compress(b"answer", &mut body).unwrap();
        let bytes = frame(COMPRESSED, &body);
        let frame = Frame::read(&bytes);
        assert_eq!(&*frame.body(Some(Compression::Lz4), |_| ()).unwrap(), b"answer");
        assert_eq!(frame.body(None, |_| ()).unwrap_err().outcome, Outcome::Protocol);
        let torn = Frame { body: &bytes[HEADER..HEADER + 3], ..frame };
        assert_eq!(
            torn.body(Some(Compression::Lz4), |_| ()).unwrap_err().outcome,
            Outcome::Protocol
        );
    }

    #[test]
    fn a_compressed_answer_with_an_impossible_length_takes_no_memory() {
        for compression in [Compression::Lz4, Compression::Snappy] {
            let mut body = Vec::new();
            compression.compress(&[7; 100_000], &mut body).unwrap();
            let bytes = frame(COMPRESSED, &body);
            let answer = Frame::read(&bytes).body(Some(compression), |_| ()).unwrap();
            assert_eq!(*answer, [7; 100_000]);
            // 4 GiB less a byte, in both encodings.
            let stated: &[u8] = match compression {
                Compression::Lz4 => b"\xff\xff\xff\xff",
                Compression::Snappy => b"\xff\xff\xff\xff\x0f",
            };
            let bytes = frame(COMPRESSED, &[stated, b"\0a"].concat());
            let refused = Frame::read(&bytes).body(Some(compression), |_| ()).unwrap_err();
            assert!(refused.text.contains("impossible length"), "{refused}");
        }
    }
}
