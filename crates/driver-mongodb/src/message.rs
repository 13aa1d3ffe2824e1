//! The messages of the protocol: `OP_MSG` with one document.

use serde_json::Value as Json;

use crate::bson::{Document, Value, put_document, put_int32, put_json, put_text, set_length};
use crate::failure::{Failure, refused, unreadable};

/// Length, request, answered request, and operation.
const HEADER: usize = 16;
/// The header, the flags, the kind of the section, and the length of its document.
const SHORTEST: usize = HEADER + 4 + 1 + 4;
/// MongoDB's limit is 48,000,000.
const LONGEST: usize = 64 << 20;
const OP_MSG: u32 = 2013;
/// The flag of a message that isn't the last one of a reply.
const MORE_TO_COME: u32 = 2;

/// A request that every server answers, for a probe: `{hello: 1, $db: "admin"}`.
pub(crate) const HELLO: &[u8] = b"\x34\0\0\0\0\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\
    \x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0";

/// Appends a message, whose elements `put` appends.
#[inline]
pub(crate) fn put_message(output: &mut Vec<u8>, id: u32, put: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    for word in [0, id, 0, OP_MSG, 0] {
        output.extend_from_slice(&word.to_le_bytes());
    }
    output.push(0);
    put_document(output, put);
    set_length(output, start);
}

/// A command with the members of a JSON object; without a member of its name, that is 1.
pub(crate) fn command(name: &str, members: &Json, database: &str) -> Vec<u8> {
    let mut output = Vec::new();
    put_message(&mut output, 0, |output| {
        match members.get(name) {
            Some(value) => put_json(output, name, value),
            None => put_int32(output, name, 1),
        }
        let others = members.as_object().into_iter().flatten().filter(|(other, _)| *other != name);
        others.for_each(|(name, value)| put_json(output, name, value));
        if members.get("$db").is_none() {
            put_text(output, "$db", database.as_bytes());
        }
    });
    output
}

/// The length of a message, once it is complete.
#[inline]
pub(crate) fn complete(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let (length, operation) = (word(header, 0) as usize, word(header, 12));
    if operation != OP_MSG || !(SHORTEST..=LONGEST).contains(&length) {
        return Err(unreadable());
    }
    Ok(Some(length).filter(|length| *length <= bytes.len()))
}

#[inline]
fn word(bytes: &[u8], place: usize) -> u32 {
    let word = bytes[place..].first_chunk().expect("a message has a header");
    u32::from_le_bytes(*word)
}

/// The request that a complete message answers, and its document.
#[inline]
pub(crate) fn reply(frame: &[u8]) -> Result<(u32, Document<'_>), Failure> {
    let is_plain = word(frame, HEADER) & MORE_TO_COME == 0 && frame[HEADER + 4] == 0;
    let (document, _checksum) = Document::split_from(&frame[HEADER + 5..])?;
    if is_plain { Ok((word(frame, 8), document)) } else { Err(unreadable()) }
}

/// The reply to a command that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Answer<'a> {
    /// The number of documents that a write matched.
    pub(crate) count: i64,
    pub(crate) cursor: Option<Document<'a>>,
    /// The failure of a write that was done, but hasn't reached its write concern.
    pub(crate) unconfirmed: Option<Failure>,
}

impl<'a> Answer<'a> {
    /// Reads a document.
    #[inline]
    pub(crate) fn read(document: Document<'a>) -> Result<Self, Failure> {
        let (mut answer, mut is_ok) = (Self::default(), false);
        for element in document {
            match element? {
                (b"ok", value) => is_ok = value.number() == Some(1),
                (b"n", value) => answer.count = value.number().unwrap_or_default(),
                (b"cursor", Value::Document(cursor)) => answer.cursor = Some(cursor),
                (b"writeErrors", Value::Array(mut errors)) => match errors.next().transpose()? {
                    Some((_, Value::Document(error))) => return Err(refused(error)),
                    _ => return Err(unreadable()),
                },
                (b"writeConcernError", Value::Document(error)) => {
                    answer.unconfirmed = Some(refused(error));
                }
                _ => {}
            }
        }
        if is_ok { Ok(answer) } else { Err(refused(document)) }
    }
}
