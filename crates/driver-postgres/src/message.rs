//! Messages of the protocol, version 3.0.
//!
//! A frame is everything that the server sends up to its next turn to wait: up to `ReadyForQuery`,
//! which answers each `Sync`, up to a question of the login, or up to the error that ends the
//! connection. Notices before a reply are a part of its frame.

use kvmark_plan::Outcome;

use crate::failure::{Failure, is_fatal};

/// The end of an execution: all rows of the portal, then the end of the implicit transaction.
pub(crate) const EXECUTE_AND_SYNC: &[u8] = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
pub(crate) const SYNC: &[u8] = b"S\0\0\0\x04";

/// The bytes of a length, which counts itself.
const LENGTH: usize = 4;
/// The server allocates no longer message.
const LONGEST: usize = 1 << 30;
/// `AuthenticationOk` and `AuthenticationSASLFinal`, after which the server continues.
const CONTINUING: [&[u8]; 2] = [&[0, 0, 0, 0], &[0, 0, 0, 12]];

/// Appends a message.
pub(crate) fn put(output: &mut Vec<u8>, tag: u8, parts: &[&[u8]]) {
    let length = LENGTH + parts.iter().map(|part| part.len()).sum::<usize>();
    output.push(tag);
    output.extend_from_slice(&(length as u32).to_be_bytes());
    parts.iter().for_each(|part| output.extend_from_slice(part));
}

/// Tag and body of the first message, if it is complete.
#[inline]
fn first(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, Failure> {
    let Some((tag, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(length) = rest.first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    // A copy would wait for data that no statement sends.
    let is_copy = matches!(tag, b'G' | b'H' | b'W');
    if is_copy || !tag.is_ascii_alphanumeric() || !(LENGTH..=LONGEST).contains(&length) {
        return Err(unreadable());
    }
    Ok(rest.get(LENGTH..length).map(|body| (*tag, body)))
}

/// The messages of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (tag, body) = first(self.0).ok()??;
        self.0 = &self.0[1 + LENGTH + body.len()..];
        Some((tag, body))
    }
}

/// The scan of an incomplete frame.
#[derive(Debug, Default)]
pub struct Scan {
    /// The length of the complete messages before the last one.
    scanned: usize,
}

impl Scan {
    /// The length of the frame, once it is complete.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        while let Some((tag, body)) = first(bytes.get(self.scanned..).unwrap_or_default())? {
            let end = self.scanned + 1 + LENGTH + body.len();
            let ends = match tag {
                b'Z' => true,
                b'R' => !CONTINUING.contains(&body.get(..LENGTH).unwrap_or_default()),
                b'E' => is_fatal(body),
                _ => false,
            };
            if ends {
                return Ok(Some(end));
            }
            self.scanned = end;
        }
        Ok(None)
    }
}

/// Reads the fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(*bytes)
    }

    #[inline]
    pub(crate) fn count(&mut self) -> Result<u16, Failure> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u32, Failure> {
        self.array().map(u32::from_be_bytes)
    }

    /// A text that ends with a zero byte.
    pub(crate) fn text(&mut self) -> Result<String, Failure> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(unreadable)?;
        let text = String::from_utf8_lossy(self.bytes(end)?).into_owned();
        self.bytes(1)?;
        Ok(text)
    }

    /// A value with its length; `None` is null.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Failure> {
        let length = i32::from_be_bytes(self.array()?);
        usize::try_from(length).ok().map(|length| self.bytes(length)).transpose()
    }

    /// Name and type of each column of a `RowDescription`.
    pub(crate) fn columns(&mut self) -> Result<Vec<(String, u32)>, Failure> {
        let mut columns = Vec::new();
        for _ in 0..self.count()? {
            let name = self.text()?;
            // The table and the number of its column.
            self.bytes(4 + 2)?;
            columns.push((name, self.number()?));
            // The length and the modifier of the type, and the format.
            self.bytes(2 + 4 + 2)?;
        }
        Ok(columns)
    }
}

/// The failure of bytes that don't follow the protocol.
#[cold]
pub(crate) fn unreadable() -> Failure {
    Failure::new(Outcome::Protocol, "the server's bytes aren't a reply in PostgreSQL's protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(messages: &[(u8, &[u8])]) -> Option<usize> {
        let mut bytes = Vec::new();
        messages.iter().for_each(|(tag, body)| put(&mut bytes, *tag, &[body]));
        Scan::default().advance(&bytes).unwrap().map(|length| length - bytes.len())
    }

    #[test]
    fn a_frame_ends_where_the_server_waits_or_closes() {
        let fatal: &[u8] = b"SFATAL\0C57P01\0Mbye\0\0";
        let ends: [&[(u8, &[u8])]; 5] = [
            &[(b'2', b""), (b'D', b"\0\0"), (b'C', b"SELECT 1\0"), (b'Z', b"I")],
            &[(b'E', b"SERROR\0VERROR\0C23505\0\0"), (b'Z', b"I")],
            &[(b'N', b"SWARNING\0\0"), (b'E', fatal)],
            &[(b'R', b"\0\0\0\x05salt")],
            &[(b'R', b"\0\0\0\x0cv=x"), (b'R', &[0; 4]), (b'S', b"a\0b\0"), (b'Z', b"I")],
        ];
        for messages in ends {
            assert_eq!(scanned(messages), Some(0), "{messages:?}");
            assert_eq!(scanned(&messages[..messages.len() - 1]), None, "{messages:?}");
        }
    }

    #[test]
    fn other_bytes_are_rejected() {
        for bytes in [&b"HTTP/1.1 400"[..], b"Z\0\0\0\x03", b"\x15\x03\x01\0\x02", b"G\0\0\0\x05\0"]
        {
            assert!(Scan::default().advance(bytes).is_err(), "{bytes:?}");
        }
    }
}
