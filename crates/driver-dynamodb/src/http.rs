//! Responses of HTTP/1.1.

use std::borrow::Cow;

use httparse::{EMPTY_HEADER, Response as Head, Status, parse_chunk_size, parse_headers};
use kvmark_plan::Outcome;

use crate::failure::Failure;

/// Limit on the bytes of the headers.
const HEAD_MAX: usize = 64 << 10;
/// Limit on the number of headers.
const HEADERS_MAX: usize = 64;
/// Limit on the bytes of a body: a page has 1 MiB, and JSON may escape each byte.
const BODY_MAX: usize = 64 << 20;

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// Whether the server closes the connection.
    pub(crate) closes: bool,
    pub(crate) body: Cow<'a, [u8]>,
    /// The length of the response.
    pub(crate) length: usize,
}

impl<'a> Response<'a> {
    /// Reads the response at the beginning of `bytes`, once it is complete.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Option<Self>, Failure> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut head = Head::new(&mut headers);
        let parsed = head.parse(&bytes[..bytes.len().min(HEAD_MAX)]).map_err(|_| garbage())?;
        let Status::Complete(start) = parsed else {
            return if bytes.len() < HEAD_MAX { Ok(None) } else { Err(garbage()) };
        };
        let value = |name: &str| {
            let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            str::from_utf8(found.map_or(b"", |header| header.value)).unwrap_or_default()
        };
        let body = if value("transfer-encoding").eq_ignore_ascii_case("chunked") {
            chunks(bytes, start)?.map(|(body, end)| (Cow::Owned(body), end))
        } else {
            let length: usize = value("content-length").parse().map_err(|_| garbage())?;
            if length > BODY_MAX {
                return Err(garbage());
            }
            let end = start + length;
            bytes.get(start..end).map(|body| (Cow::Borrowed(body), end))
        };
        let closes = value("connection").eq_ignore_ascii_case("close") || head.version == Some(0);
        let status = head.code.unwrap_or_default();
        Ok(body.map(|(body, length)| Self { status, closes, body, length }))
    }
}

/// The body of the chunks that begin at this place, and its end, once they are complete.
fn chunks(bytes: &[u8], mut at: usize) -> Result<Option<(Vec<u8>, usize)>, Failure> {
    let mut body = Vec::new();
    loop {
        let size = parse_chunk_size(&bytes[at..]).map_err(|_| garbage())?;
        let Status::Complete((head, length)) = size else { return Ok(None) };
        at += head;
        let length = length.min(BODY_MAX as u64) as usize;
        if body.len() + length >= BODY_MAX {
            return Err(garbage());
        }
        if length == 0 {
            let mut trailers = [EMPTY_HEADER; HEADERS_MAX];
            let end = parse_headers(&bytes[at..], &mut trailers).map_err(|_| garbage())?;
            let Status::Complete((trailer, _)) = end else { return Ok(None) };
            return Ok(Some((body, at + trailer)));
        }
        let Some(chunk) = bytes.get(at..at + length + 2) else { return Ok(None) };
        body.extend_from_slice(chunk.strip_suffix(b"\r\n").ok_or_else(garbage)?);
        at += length + 2;
    }
}

/// The failure of bytes that aren't a response, or a longer one than any.
#[cold]
fn garbage() -> Failure {
    Failure::new(Outcome::Protocol, "the server's answer isn't a response of HTTP/1.1")
}
