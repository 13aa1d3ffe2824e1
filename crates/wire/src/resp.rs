//! The Redis protocol, versions 2 and 3: commands as arrays of bulk strings, replies of any shape.
//!
//! A [`Scan`] finds the end of a reply, then a [`Cursor`] reads the reply in place. Neither
//! allocates or recurses, so no reply can exhaust the stack. The scan resumes where it stopped when
//! more bytes arrive. Source: the RESP specification of redis.io. Streamed strings and aggregates,
//! which no server sends, are rejected.

pub mod stream;

use kvmark_plan::Outcome;

use crate::number::{DIGITS, decimal, parse, signed};

/// Longest bulk string and longest aggregate that are accepted.
const LENGTH_MAX: i64 = 1 << 30;
/// Length of the line end, which also follows a string.
pub const LINE_END: usize = 2;
/// Longest line that is accepted.
const LINE_MAX: usize = 64 << 10;

/// The bytes don't follow the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer isn't the Redis protocol")]
pub struct Garbage;

/// Appends a header: its kind, a number, a line end.
#[inline]
fn put_header(output: &mut Vec<u8>, kind: u8, number: usize) {
    // Most lengths have one digit or two and need no loop.
    let digit = |number: usize| b'0' + number as u8;
    if number < 10 {
        output.extend_from_slice(&[kind, digit(number), b'\r', b'\n']);
    } else if number < 100 {
        let (tens, ones) = (digit(number / 10), digit(number % 10));
        output.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
    } else {
        put_long_header(output, kind, number);
    }
}

#[inline(never)]
fn put_long_header(output: &mut Vec<u8>, kind: u8, number: usize) {
    let mut header = [0; DIGITS + 3];
    let at = decimal(&mut header, DIGITS + 1, number as u64) - 1;
    header[at] = kind;
    header[DIGITS + 1..].copy_from_slice(b"\r\n");
    output.extend_from_slice(&header[at..]);
}

/// Begins a command of this many parts, its name included.
#[inline]
pub fn put_command(output: &mut Vec<u8>, parts: usize) {
    put_header(output, b'*', parts);
}

/// Adds a part to a command.
#[inline]
pub fn put_part(output: &mut Vec<u8>, part: &[u8]) {
    put_header(output, b'$', part.len());
    output.extend_from_slice(part);
    output.extend_from_slice(b"\r\n");
}

/// Adds the bytes that `append` writes as one part.
pub fn put_joined(output: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    append(output);
    let end = output.len();
    // The header's length is known only now, so the text is moved behind it.
    put_header(output, b'$', end - start);
    let length = output.len() - end;
    let mut header = [0; DIGITS + 3];
    header[..length].copy_from_slice(&output[end..]);
    output.copy_within(start..end, start + length);
    output[start..start + length].copy_from_slice(&header[..length]);
    output.extend_from_slice(b"\r\n");
}

/// Adds a whole number as a part.
#[inline]
pub fn put_number_part(output: &mut Vec<u8>, number: i64) {
    let mut text = [0; DIGITS];
    let at = signed(&mut text, number);
    put_part(output, &text[at..]);
}

/// Adds a whole command.
pub fn put_all<P: AsRef<[u8]>>(output: &mut Vec<u8>, parts: &[P]) {
    put_command(output, parts.len());
    for part in parts {
        put_part(output, part.as_ref());
    }
}

/// One element of a reply. Aggregates state how many elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A short text, such as `OK`.
    Simple(&'a [u8]),
    /// An error of the server.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A string of bytes.
    Bulk(&'a [u8]),
    /// A null of either version.
    Null,
    /// Array, set or push of this many elements, or a map of half as many names and values.
    List(usize),
    /// Boolean, double or big number, as written.
    Other(&'a [u8]),
}

/// The meaning of the first line of an element.
pub(crate) enum Head {
    /// The element is this line alone.
    Line,
    /// This many bytes and a line end follow.
    Bytes(usize),
    /// This many elements follow.
    Elements(u64),
    /// This many elements follow, which describe the next element.
    Attributes(u64),
}

/// A length, or `None` for the null of version 2.
fn length(text: &[u8]) -> Result<Option<usize>, Garbage> {
    match parse(text) {
        Some(-1) => Ok(None),
        Some(length @ 0..=LENGTH_MAX) => Ok(Some(length as usize)),
        _ => Err(Garbage),
    }
}

/// The line at `from` without its end, and the index of the next line.
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, Garbage> {
    let rest = &bytes[from..];
    let searched = &rest[..rest.len().min(LINE_MAX)];
    let Some(end) = searched.iter().position(|byte| *byte == b'\n') else {
        return if rest.len() >= LINE_MAX { Err(Garbage) } else { Ok(None) };
    };
    let text = rest[..end].strip_suffix(b"\r").ok_or(Garbage)?;
    Ok(Some((text, from + end + 1)))
}

pub(crate) fn head(line: &[u8]) -> Result<Head, Garbage> {
    let (kind, text) = line.split_first().ok_or(Garbage)?;
    let elements = |factor: u64| {
        let count = length(text)?.ok_or(Garbage)?;
        Ok(factor * count as u64)
    };
    match kind {
        b'$' | b'!' | b'=' => Ok(length(text)?.map_or(Head::Line, Head::Bytes)),
        b'*' => Ok(length(text)?.map_or(Head::Line, |count| Head::Elements(count as u64))),
        b'~' | b'>' => Ok(Head::Elements(elements(1)?)),
        b'%' => Ok(Head::Elements(elements(2)?)),
        b'|' => Ok(Head::Attributes(elements(2)?)),
        b':' => parse(text).map(|_| Head::Line).ok_or(Garbage),
        b'_' if text.is_empty() => Ok(Head::Line),
        b'#' if matches!(text, b"t" | b"f") => Ok(Head::Line),
        b'+' | b'-' | b',' | b'(' => Ok(Head::Line),
        _ => Err(Garbage),
    }
}

/// Length of a complete reply at the start of the bytes, if it is one of the usual replies to a
/// write or a read: `+OK`, or one string of less than 10,000 bytes.
#[inline]
pub fn whole(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"+OK\r\n") {
        return Some(5);
    }
    short_bulk(bytes).map(|(_, end)| end + 2)
}

/// Bounds of a complete string of less than 10,000 bytes. At least 8 bytes must be available.
#[inline]
pub(crate) fn short_bulk(bytes: &[u8]) -> Option<(usize, usize)> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    // The first `\r` is the lowest byte that becomes zero; the borrow affects only higher bytes.
    let other = word ^ (EACH * u64::from(b'\r'));
    let found = other.wrapping_sub(EACH) & !other & (EACH << 7);
    let line = found.trailing_zeros() as usize / 8;
    if word as u8 != b'$' || !(2..=5).contains(&line) || bytes[line + 1] != b'\n' {
        return None;
    }
    let length = short_number((word >> 8) as u32, line - 1)?;
    let (head, end) = (line + 2, line + 2 + length);
    (bytes.get(end..end + 2)? == b"\r\n").then_some((head, end))
}

/// The number in the first one to four bytes of a word.
#[inline]
fn short_number(word: u32, digits: usize) -> Option<usize> {
    const EACH: u32 = 0x0101_0101;
    // Shifts the digits to the top and turns each byte into the value of its digit.
    let values = (word ^ (EACH * u32::from(b'0'))) << (8 * (4 - digits));
    if (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80) != 0 {
        return None;
    }
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff;
    Some((((pairs * 100) + (pairs >> 16)) & 0xffff) as usize)
}

/// How far a reply has been scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    at: usize,
    /// Elements that are still expected.
    missing: u64,
}

impl Default for Scan {
    fn default() -> Self {
        Self::START
    }
}

impl Scan {
    /// At the beginning of a reply.
    pub const START: Self = Self { at: 0, missing: 1 };

    /// Continues with more bytes, which begin with the reply. Returns the length of the reply once
    /// it is complete.
    ///
    /// # Errors
    /// The bytes don't follow the protocol.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        if *self == Self::START
            && let Some(length) = whole(bytes)
        {
            *self = Self { at: length, missing: 0 };
            return Ok(Some(length));
        }
        self.resume(bytes)
    }

    fn resume(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        while self.missing > 0 {
            if let Some((_, end)) = short_bulk(&bytes[self.at..]) {
                self.at += end + 2;
                self.missing -= 1;
                continue;
            }
            let Some((text, next)) = line(bytes, self.at)? else { return Ok(None) };
            match head(text)? {
                Head::Line => self.missing -= 1,
                Head::Bytes(length) => {
                    let Some(end) = bytes.get(next + length..next + length + 2) else {
                        return Ok(None);
                    };
                    if end != b"\r\n" {
                        return Err(Garbage);
                    }
                    self.at = next + length + 2;
                    self.missing -= 1;
                    continue;
                }
                Head::Elements(count) => self.missing = self.missing - 1 + count,
                Head::Attributes(count) => self.missing += count,
            }
            if self.missing > 1 << 40 {
                return Err(Garbage);
            }
            self.at = next;
        }
        Ok(Some(self.at))
    }
}

/// Reads the elements of a complete reply in sequence.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    /// Index of the next element.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// Over a reply that was scanned to its end.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next element and skips attributes.
    pub fn token(&mut self) -> Result<Token<'a>, Garbage> {
        let mut skipped = 0_u64;
        loop {
            let (text, next) = line(self.bytes, self.at)?.ok_or(Garbage)?;
            self.at = next;
            let head = head(text)?;
            if let Head::Attributes(count) = head {
                skipped += count;
                continue;
            }
            let token = self.element(text, &head)?;
            if skipped == 0 {
                return Ok(token);
            }
            skipped -= 1;
            if let Head::Elements(count) = head {
                skipped += count;
            }
        }
    }

    fn element(&mut self, text: &'a [u8], head: &Head) -> Result<Token<'a>, Garbage> {
        let (kind, rest) = text.split_first().ok_or(Garbage)?;
        match head {
            Head::Bytes(length) => {
                let bytes = self.bytes.get(self.at..self.at + length).ok_or(Garbage)?;
                self.at += length + 2;
                Ok(match kind {
                    b'!' => Token::Error(bytes),
                    // A verbatim string begins with its format, as in `txt:`.
                    b'=' => Token::Bulk(bytes.get(4..).unwrap_or_default()),
                    _ => Token::Bulk(bytes),
                })
            }
            Head::Elements(count) => Ok(Token::List(*count as usize)),
            Head::Line | Head::Attributes(_) => Ok(match kind {
                b'+' => Token::Simple(rest),
                b'-' => Token::Error(rest),
                b':' => Token::Integer(parse(rest).ok_or(Garbage)?),
                b'_' | b'$' | b'*' | b'!' | b'=' => Token::Null,
                _ => Token::Other(rest),
            }),
        }
    }

    /// Reads a list or map and returns the number of elements that follow.
    #[inline]
    pub fn elements(&mut self) -> Result<usize, Garbage> {
        match self.token()? {
            Token::List(count) => Ok(count),
            _ => Err(Garbage),
        }
    }

    /// Skips this many elements with their contents.
    pub fn skip(&mut self, elements: usize) -> Result<(), Garbage> {
        let mut left = elements;
        while left > 0 {
            left = left - 1
                + match self.token()? {
                    Token::List(count) => count,
                    _ => 0,
                };
        }
        Ok(())
    }

    /// Reads the next element, which must be text or null.
    #[inline]
    pub fn next_bulk(&mut self) -> Result<Option<&'a [u8]>, Garbage> {
        let rest = &self.bytes[self.at..];
        // Most values are short strings.
        match short_bulk(rest) {
            Some((head, end)) => {
                self.at += end + 2;
                Ok(Some(&rest[head..end]))
            }
            None => self.text(),
        }
    }

    /// The remaining bytes of the reply.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Reads the next element as text; `None` is null.
    pub fn text(&mut self) -> Result<Option<&'a [u8]>, Garbage> {
        match self.token()? {
            Token::Bulk(bytes) | Token::Simple(bytes) => Ok(Some(bytes)),
            Token::Null => Ok(None),
            _ => Err(Garbage),
        }
    }
}

/// Whether a reply is a push message, which answers no request.
#[inline]
pub fn is_push(reply: &[u8]) -> bool {
    reply.first() == Some(&b'>')
}

/// The outcome of an operation that the server answered with this error, by the error's first word.
pub fn outcome_of(message: &[u8]) -> Outcome {
    match message.split(|byte| *byte == b' ').next().unwrap_or_default() {
        b"LOADING" | b"MASTERDOWN" | b"CLUSTERDOWN" | b"READONLY" | b"TRYAGAIN" | b"NOREPLICAS" => {
            Outcome::Unavailable
        }
        b"OOM" | b"BUSY" => Outcome::Overloaded,
        b"MISCONF" => Outcome::Storage,
        b"ERR" if message.starts_with(b"ERR max number of clients") => Outcome::Overloaded,
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_string_begins_and_ends_where_its_header_says() {
        for length in (0..130).chain([999, 1_000, 9_999]) {
            let mut bytes = Vec::new();
            put_part(&mut bytes, &vec![b'\r'; length]);
            let (head, end) = (bytes.len() - length - 2, bytes.len() - 2);
            bytes.extend_from_slice(b"$1\r\n");
            assert_eq!(short_bulk(&bytes), Some((head, end)), "{length}");
            assert_eq!(short_bulk(&bytes[..end + 1]), None, "{length}");
        }
        for other in
            ["$10000\r\n", "$\r\n123456", "$1:\r\n12345678901", "$-1\r\n+OK\r\n", "$1\rx12345"]
        {
            assert_eq!(short_bulk(other.as_bytes()), None, "{other}");
        }
    }

    fn scanned(bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        Scan::START.clone().advance(bytes)
    }

    /// Any reply, as a server would write it.
    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let line = "[ -~]{0,12}";
        let leaf = prop_oneof![
            (prop::sample::select(vec!['+', '-', ',', '(']), line)
                .prop_map(|(kind, text)| format!("{kind}{text}\r\n").into_bytes()),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            prop::sample::select(vec!["$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", "#f\r\n"])
                .prop_map(|text| text.as_bytes().to_vec()),
            (prop::sample::select(vec![b'$', b'!', b'=']), any::<Vec<u8>>()).prop_map(
                |(kind, bytes)| {
                    let mut reply = Vec::new();
                    put_part(&mut reply, &bytes);
                    reply[0] = kind;
                    reply
                }
            ),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let kinds = prop::sample::select(vec![b'*', b'~', b'>', b'%', b'|']);
            (kinds, prop::collection::vec(inner, 0..3)).prop_map(|(kind, parts)| {
                let times = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                let mut reply = Vec::new();
                put_header(&mut reply, kind, parts.len());
                (0..times).for_each(|_| reply.extend(parts.concat()));
                if kind == b'|' {
                    reply.extend_from_slice(b"+text\r\n");
                }
                reply
            })
        })
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut output = Vec::new();
        put_all(&mut output, &["SET", "k", ""]);
        put_command(&mut output, 1);
        put_number_part(&mut output, i64::MIN);
        let expected: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n\
            *1\r\n$20\r\n-9223372036854775808\r\n";
        assert_eq!(output, expected);
    }

    #[test]
    fn each_kind_of_element_is_read_in_place() {
        let bytes = b"%2\r\n+a\r\n:-7\r\n$2\r\n\r\n\r\n*1\r\n=5\r\ntxt:x\r\n";
        assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
        let mut cursor = Cursor::new(bytes);
        let tokens: Vec<_> = (0..6).map(|_| cursor.token().unwrap()).collect();
        let expected = [
            Token::List(4),
            Token::Simple(b"a"),
            Token::Integer(-7),
            Token::Bulk(b"\r\n"),
            Token::List(1),
            Token::Bulk(b"x"),
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn both_versions_of_null_and_error_are_equal() {
        let read = |bytes| Cursor::new(bytes).token().unwrap();
        assert_eq!([read(b"$-1\r\n"), read(b"*-1\r\n"), read(b"_\r\n")], [Token::Null; 3]);
        assert_eq!(read(b"-ERR no\r\n"), Token::Error(b"ERR no"));
        assert_eq!(read(b"!6\r\nERR no\r\n"), Token::Error(b"ERR no"));
    }

    #[test]
    fn attributes_are_skipped() {
        let bytes = b"|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n$1\r\nv\r\n";
        assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
        assert_eq!(Cursor::new(bytes).token(), Ok(Token::Bulk(b"v")));
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let malformed: [&[u8]; 11] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"+no return\n",
            b"$x\r\n",
            b"$\r\n\r\n",
            b"$2\n\r\n\r\n",
            b"$-2\r\n",
            b"$2\r\nabc\r\n",
            b":12a\r\n",
            b"*99999999999999\r\n",
            b"$?\r\n",
            b"\r\n",
        ];
        for bytes in malformed {
            assert_eq!(scanned(bytes), Err(Garbage), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(scanned(&[b'+'; LINE_MAX]), Err(Garbage));
    }

    #[test]
    fn each_error_has_an_outcome() {
        let cases = [
            ("LOADING Redis is loading the dataset in memory", Outcome::Unavailable),
            ("MASTERDOWN Link with MASTER is down", Outcome::Unavailable),
            ("CLUSTERDOWN The cluster is down", Outcome::Unavailable),
            ("READONLY You can't write against a read only replica.", Outcome::Unavailable),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Outcome::Unavailable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Outcome::Overloaded),
            ("BUSY Redis is busy running a script.", Outcome::Overloaded),
            ("ERR max number of clients reached", Outcome::Overloaded),
            ("MISCONF Redis is configured to save RDB snapshots", Outcome::Storage),
            ("NOAUTH Authentication required.", Outcome::Refused),
            ("WRONGPASS invalid username-password pair", Outcome::Refused),
            ("NOPERM this user has no permissions", Outcome::Refused),
            ("WRONGTYPE Operation against a key", Outcome::Refused),
            ("ERR unknown command", Outcome::Refused),
            ("CROSSSLOT Keys in request don't hash to the same slot", Outcome::Refused),
            ("MOVED 3999 127.0.0.1:6381", Outcome::Refused),
        ];
        for (message, outcome) in cases {
            assert_eq!(outcome_of(message.as_bytes()), outcome, "{message}");
        }
    }

    proptest! {
        #[test]
        fn a_reply_is_complete_at_its_last_byte_wherever_it_is_split(
            reply in reply(),
            other in reply(),
        ) {
            let mut bytes = reply.clone();
            bytes.extend_from_slice(&other);
            let mut one_by_one = Scan::START;
            for end in 0..reply.len() {
                prop_assert_eq!(one_by_one.advance(&bytes[..end]), Ok(None));
                prop_assert_eq!(scanned(&bytes[..end]), Ok(None));
                let mut resumed = Scan::START;
                prop_assert_eq!(resumed.advance(&bytes[..end]), Ok(None));
                prop_assert_eq!(resumed.advance(&bytes), Ok(Some(reply.len())));
            }
            prop_assert_eq!(one_by_one.advance(&bytes), Ok(Some(reply.len())));
        }

        #[test]
        fn a_cursor_reads_a_scanned_reply_to_its_end(reply in reply()) {
            let mut cursor = Cursor::new(&reply);
            while cursor.at < reply.len() {
                prop_assert!(cursor.token().is_ok());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(b"$*:+-_#%~>|=!(,019\r\n".to_vec()),
                    any::<u8>(),
                ],
                0..64,
            ),
        ) {
            let complete = scanned(&bytes);
            prop_assert!(complete.is_err() || complete.is_ok_and(|end| end <= Some(bytes.len())));
            let mut cursor = Cursor::new(&bytes);
            while cursor.at < bytes.len() && cursor.token().is_ok() {}
        }
    }
}
