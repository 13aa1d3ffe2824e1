//! Frames of CQL's native protocol, version 4: the elements of their bodies, and the descriptions
//! of results.
//!
//! Source: Apache Cassandra, `doc/native_protocol_v4.spec`.

pub mod errors;
pub mod types;

use types::Column;

/// Version, flags, stream, opcode and length of the body.
pub const HEADER: usize = 9;
/// The version byte of requests.
pub const VERSION: u8 = 4;
/// The version byte of replies.
pub const ANSWER: u8 = 0x80 | VERSION;

/// The longest body that the protocol allows, in bytes.
pub const BODY_MAX: usize = 256 << 20;

/// An error, [`errors`].
pub const ERROR: u8 = 0;
/// Options of a connection.
pub const STARTUP: u8 = 1;
/// A connection needs no login.
pub const READY: u8 = 2;
/// A login is required.
pub const AUTHENTICATE: u8 = 3;
/// A request for [`SUPPORTED`].
pub const OPTIONS: u8 = 5;
/// The options of a node.
pub const SUPPORTED: u8 = 6;
/// A statement as text.
pub const QUERY: u8 = 7;
/// The result of a statement.
pub const RESULT: u8 = 8;
/// A statement to prepare.
pub const PREPARE: u8 = 9;
/// A prepared statement with its values.
pub const EXECUTE: u8 = 10;
/// A request for events.
pub const REGISTER: u8 = 11;
/// An event, which answers no request.
pub const EVENT: u8 = 12;
/// Several statements.
pub const BATCH: u8 = 13;
/// A step of a login, with secrets.
pub const AUTH_RESPONSE: u8 = 15;
/// A login has succeeded.
pub const AUTH_SUCCESS: u8 = 16;

/// The flag of a frame with a compressed body.
pub const COMPRESSED: u8 = 0x01;
/// The flag of a frame with the id of a trace.
pub const TRACED: u8 = 0x02;
/// The flag of a frame with a payload.
pub const WITH_PAYLOAD: u8 = 0x04;
/// The flag of a frame with warnings.
pub const WITH_WARNINGS: u8 = 0x08;

/// The kind of a result with rows.
pub const ROWS: i32 = 2;
/// The kind of a result with the id of a prepared statement.
pub const PREPARED: i32 = 4;
/// All kinds of results.
pub const KINDS: std::ops::RangeInclusive<i32> = 1..=5;

/// The flag of an execution with values.
pub const WITH_VALUES: u8 = 0x01;
/// The flag of an execution with the paging state of a page.
pub const WITH_STATE: u8 = 0x08;

/// The column with the result of a conditional write.
pub const APPLIED: &[u8] = b"[applied]";

/// The flag of a description whose columns are of one table.
pub const ONE_TABLE: i32 = 0x01;
/// The flag of a description with the paging state of the next page.
pub const MORE_PAGES: i32 = 0x02;
/// The flag of a description without columns.
pub const NOT_DESCRIBED: i32 = 0x04;

/// What precedes the body of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// A warning.
    Warning(&'a str),
    /// A part of the payload: its name and its value.
    Payload(&'a [u8], &'a [u8]),
}

/// The description of a prepared statement.
#[derive(Debug)]
pub struct Preparation<'a> {
    /// The id for executions.
    pub id: &'a [u8],
    /// The bind markers of the partition key, in its order; empty if it isn't bound completely.
    pub key: Vec<u16>,
    /// The bind markers.
    pub markers: Vec<Column<'a>>,
    /// The columns of its rows.
    pub columns: Vec<Column<'a>>,
}

/// The description of rows.
#[derive(Debug)]
pub struct Description<'a> {
    /// Empty if the columns aren't described.
    pub columns: Vec<Column<'a>>,
    /// The number of columns.
    pub count: usize,
    /// The paging state of the next page.
    pub next: Option<&'a [u8]>,
}

impl<'a> Description<'a> {
    /// Reads a description; `None` if it is truncated.
    #[inline]
    pub fn read(body: &mut Reader<'a>) -> Option<Self> {
        let flags = body.int()?;
        let count = usize::try_from(body.int()?).ok()?;
        let next = if flags & MORE_PAGES != 0 { body.bytes()? } else { None };
        let is_described = flags & NOT_DESCRIBED == 0;
        let described = if is_described { count } else { 0 };
        let columns = Column::read_all(body, described, flags & ONE_TABLE != 0)?;
        Some(Self { columns, count, next })
    }
}

impl<'a> Preparation<'a> {
    /// Reads a result of the kind [`PREPARED`], after its kind; `None` if it is truncated.
    pub fn read(mut body: Reader<'a>) -> Option<Self> {
        let id = body.short_bytes()?;
        let flags = body.int()?;
        let count = usize::try_from(body.int()?).ok()?;
        let key = (0..body.int()?).map(|_| body.short()).collect::<Option<_>>()?;
        let markers = Column::read_all(&mut body, count, flags & ONE_TABLE != 0)?;
        let Description { columns, .. } = Description::read(&mut body)?;
        Some(Self { id, key, markers, columns })
    }
}

/// The body after trace, warnings and payload.
pub fn skip_extensions(flags: u8, body: &[u8], mut noted: impl FnMut(Note<'_>)) -> Option<&[u8]> {
    let mut body = Reader(body);
    if flags & TRACED != 0 {
        body.take(16)?;
    }
    if flags & WITH_WARNINGS != 0 {
        for _ in 0..body.short()? {
            noted(Note::Warning(&String::from_utf8_lossy(body.short_bytes()?)));
        }
    }
    if flags & WITH_PAYLOAD != 0 {
        for _ in 0..body.short()? {
            noted(Note::Payload(body.short_bytes()?, body.bytes()?.unwrap_or_default()));
        }
    }
    Some(body.0)
}

/// Reads the elements of a body; `None` means that it is truncated.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Bytes of this number.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// A number of two bytes.
    #[inline]
    pub fn short(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    /// A number of four bytes.
    #[inline]
    pub fn int(&mut self) -> Option<i32> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// Bytes with a length; the inner `None` is null.
    #[inline]
    pub fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match usize::try_from(self.int()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }

    /// The elements of a list, set or map, after their number.
    pub fn elements(mut self) -> impl Iterator<Item = Option<&'a [u8]>> {
        self.int();
        std::iter::from_fn(move || self.bytes())
    }

    /// Bytes or text with a short length.
    #[inline]
    pub fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(usize::from(length))
    }
}

/// Begins a request. Its stream and length are set later.
pub fn begin(output: &mut Vec<u8>, opcode: u8) {
    output.extend_from_slice(&[VERSION, 0, 0, 0, opcode, 0, 0, 0, 0]);
}

/// Sets the length of a frame's body.
#[inline]
pub fn set_length(frame: &mut [u8]) {
    let length = (frame.len() - HEADER) as u32;
    frame[HEADER - 4..HEADER].copy_from_slice(&length.to_be_bytes());
}

/// Sets the stream of a frame.
#[inline]
pub fn set_stream(frame: &mut [u8], stream: u16) {
    frame[2..4].copy_from_slice(&stream.to_be_bytes());
}

/// Appends text with a short length.
pub fn put_short(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    output.extend_from_slice(bytes);
}

/// Appends a part of a partition key of several columns, as nodes hash it.
pub fn put_part(key: &mut Vec<u8>, part: &[u8]) {
    put_short(key, part);
    key.push(0);
}

/// Appends text with a long length, or a value.
#[inline]
pub fn put_long(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    output.extend_from_slice(bytes);
}
