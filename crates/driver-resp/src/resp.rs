//! The Redis protocol, versions 2 and 3: commands as arrays of bulk strings, replies of any shape.
//!
//! A reply is first scanned to its end, then read in place by a [`Cursor`]; neither allocates, and
//! neither recurses, so that no reply can exhaust the stack. The scan takes up where it stopped
//! when more bytes come. Source: the RESP specification of redis.io. Strings and aggregates of
//! unstated length, which no server sends, are refused.

use kvmark_driver_server::text::{DIGITS, decimal, signed};

/// Longest bulk string and longest aggregate that are believed.
const LENGTH_MAX: i64 = 1 << 30;
/// Bytes that end a line, and what stands behind a string.
pub(crate) const LINE_END: usize = 2;
/// Longest line that is believed.
const LINE_MAX: usize = 64 << 10;

/// The bytes aren't the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer isn't the Redis protocol")]
pub(crate) struct Garbage;

/// Appends a header: its kind, a number, a line end.
#[inline]
fn put_header(output: &mut Vec<u8>, kind: u8, number: usize) {
    // Most lengths have one digit or two, for which nothing is counted.
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
pub(crate) fn put_command(output: &mut Vec<u8>, parts: usize) {
    put_header(output, b'*', parts);
}

/// Adds a part to a command.
#[inline]
pub(crate) fn put_part(output: &mut Vec<u8>, part: &[u8]) {
    put_header(output, b'$', part.len());
    output.extend_from_slice(part);
    output.extend_from_slice(b"\r\n");
}

/// Adds what `append` appends as one part.
pub(crate) fn put_joined(output: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    append(output);
    let end = output.len();
    // The header's length is known only now, so that the text makes room for it.
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
pub(crate) fn put_number_part(output: &mut Vec<u8>, number: i64) {
    let mut text = [0; DIGITS];
    let at = signed(&mut text, number);
    put_part(output, &text[at..]);
}

/// Adds a whole command.
pub(crate) fn put_all<P: AsRef<[u8]>>(output: &mut Vec<u8>, parts: &[P]) {
    put_command(output, parts.len());
    for part in parts {
        put_part(output, part.as_ref());
    }
}

/// One element of a reply. Aggregates state how many elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A short text, such as `OK`.
    Simple(&'a [u8]),
    /// The server's refusal.
    Error(&'a [u8]),
    Integer(i64),
    /// A string of bytes.
    Bulk(&'a [u8]),
    Null,
    /// Array, set or push of this many elements.
    List(usize),
    /// A map of twice as many elements.
    Map(usize),
    /// Boolean, double or big number, as written.
    Other(&'a [u8]),
}

/// What the first line of an element says.
enum Head {
    /// The element is this line.
    Line,
    /// So many bytes and a line end follow.
    Bytes(usize),
    /// So many elements follow.
    Elements(u64),
    /// So many elements follow, which only comment on the next one.
    Attributes(u64),
}

fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // The smallest number has no positive twin, so that it is counted downwards.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// A length, or none for the null of version 2.
fn length(text: &[u8]) -> Result<Option<usize>, Garbage> {
    match number(text) {
        Some(-1) => Ok(None),
        Some(length @ 0..=LENGTH_MAX) => Ok(Some(length as usize)),
        _ => Err(Garbage),
    }
}

/// The line that begins here, without its end, and where the next one begins.
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, Garbage> {
    let rest = &bytes[from..];
    let believed = &rest[..rest.len().min(LINE_MAX)];
    let Some(end) = believed.iter().position(|byte| *byte == b'\n') else {
        return if rest.len() >= LINE_MAX { Err(Garbage) } else { Ok(None) };
    };
    let text = rest[..end].strip_suffix(b"\r").ok_or(Garbage)?;
    Ok(Some((text, from + end + 1)))
}

fn head(line: &[u8]) -> Result<Head, Garbage> {
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
        b':' => number(text).map(|_| Head::Line).ok_or(Garbage),
        b'_' if text.is_empty() => Ok(Head::Line),
        b'#' if matches!(text, b"t" | b"f") => Ok(Head::Line),
        b'+' | b'-' | b',' | b'(' => Ok(Head::Line),
        _ => Err(Garbage),
    }
}

/// Length of the reply that the bytes begin with, when it is what most writes or most reads get and
/// all of it is there: `+OK`, or one string of less than 10,000 bytes.
#[inline]
pub(crate) fn whole(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"+OK\r\n") {
        return Some(5);
    }
    short_bulk(bytes).map(|(_, end)| end + 2)
}

/// Where a string of bytes begins and ends that is short, whole, and not all of what is there.
#[inline]
fn short_bulk(bytes: &[u8]) -> Option<(usize, usize)> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    // The first byte that is a line's end: it alone becomes zero, and what is borrowed for it is
    // above it.
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

/// The number that the first bytes of a word are the digits of, one to four.
#[inline]
fn short_number(word: u32, digits: usize) -> Option<usize> {
    const EACH: u32 = 0x0101_0101;
    // Zeros come before them, and each byte becomes what its digit means.
    let values = (word ^ (EACH * u32::from(b'0'))) << (8 * (4 - digits));
    if (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80) != 0 {
        return None;
    }
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff;
    Some((((pairs * 100) + (pairs >> 16)) & 0xffff) as usize)
}

/// How far a reply has been scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    at: usize,
    /// Elements that are still to come.
    missing: u64,
}

impl Default for Scan {
    fn default() -> Self {
        Self::START
    }
}

impl Scan {
    /// At the beginning of a reply.
    pub(crate) const START: Self = Self { at: 0, missing: 1 };

    /// Goes on; the length of the reply when it is complete. `bytes` begin with the reply.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        if *self == Self::START
            && let Some(length) = whole(bytes)
        {
            *self = Self { at: length, missing: 0 };
            return Ok(Some(length));
        }
        self.go_on(bytes)
    }

    fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
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

/// Reads the elements of a complete reply one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Where the next element begins.
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    /// Over a reply that was scanned to its end.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next element; attributes are passed over.
    pub(crate) fn token(&mut self) -> Result<Token<'a>, Garbage> {
        let mut passing = 0_u64;
        loop {
            let (text, next) = line(self.bytes, self.at)?.ok_or(Garbage)?;
            self.at = next;
            let head = head(text)?;
            if let Head::Attributes(count) = head {
                passing += count;
                continue;
            }
            let token = self.element(text, &head)?;
            if passing == 0 {
                return Ok(token);
            }
            passing -= 1;
            if let Head::Elements(count) = head {
                passing += count;
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
            Head::Elements(count) if *kind == b'%' => Ok(Token::Map(*count as usize / 2)),
            Head::Elements(count) => Ok(Token::List(*count as usize)),
            Head::Line | Head::Attributes(_) => Ok(match kind {
                b'+' => Token::Simple(rest),
                b'-' => Token::Error(rest),
                b':' => Token::Integer(number(rest).ok_or(Garbage)?),
                b'_' | b'$' | b'*' | b'!' | b'=' => Token::Null,
                _ => Token::Other(rest),
            }),
        }
    }

    /// The next element, which must be a list or map: how many elements follow.
    pub(crate) fn elements(&mut self) -> Result<usize, Garbage> {
        match self.token()? {
            Token::List(count) => Ok(count),
            Token::Map(pairs) => Ok(2 * pairs),
            _ => Err(Garbage),
        }
    }

    /// Passes over this many elements and all that is in them.
    pub(crate) fn pass(&mut self, elements: usize) -> Result<(), Garbage> {
        let mut left = elements;
        while left > 0 {
            left = left - 1
                + match self.token()? {
                    Token::List(count) => count,
                    Token::Map(pairs) => 2 * pairs,
                    _ => 0,
                };
        }
        Ok(())
    }

    /// The next element, which must be a text or null.
    #[inline]
    pub(crate) fn next_bulk(&mut self) -> Result<Option<&'a [u8]>, Garbage> {
        let rest = &self.bytes[self.at..];
        // What most are: a short string, seen at once.
        match short_bulk(rest) {
            Some((head, end)) => {
                self.at += end + 2;
                Ok(Some(&rest[head..end]))
            }
            None => self.text(),
        }
    }

    /// What is left of the reply.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The next element as text; none for a null.
    pub(crate) fn text(&mut self) -> Result<Option<&'a [u8]>, Garbage> {
        match self.token()? {
            Token::Bulk(bytes) | Token::Simple(bytes) => Ok(Some(bytes)),
            Token::Null => Ok(None),
            _ => Err(Garbage),
        }
    }
}

/// Whether a reply is a message that nobody asked for.
pub(crate) fn is_push(reply: &[u8]) -> bool {
    reply.first() == Some(&b'>')
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
                    reply.extend_from_slice(b"+said\r\n");
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
            Token::Map(2),
            Token::Simple(b"a"),
            Token::Integer(-7),
            Token::Bulk(b"\r\n"),
            Token::List(1),
            Token::Bulk(b"x"),
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn both_nulls_and_both_errors_are_alike() {
        let read = |bytes| Cursor::new(bytes).token().unwrap();
        assert_eq!([read(b"$-1\r\n"), read(b"*-1\r\n"), read(b"_\r\n")], [Token::Null; 3]);
        assert_eq!(read(b"-ERR no\r\n"), Token::Error(b"ERR no"));
        assert_eq!(read(b"!6\r\nERR no\r\n"), Token::Error(b"ERR no"));
    }

    #[test]
    fn attributes_are_passed_over() {
        let bytes = b"|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n$1\r\nv\r\n";
        assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
        assert_eq!(Cursor::new(bytes).token(), Ok(Token::Bulk(b"v")));
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        let refused: [&[u8]; 11] = [
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
        for bytes in refused {
            assert_eq!(scanned(bytes), Err(Garbage), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(scanned(&[b'+'; LINE_MAX]), Err(Garbage));
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
        fn a_scanned_reply_can_be_read_to_its_end(reply in reply()) {
            let mut cursor = Cursor::new(&reply);
            while cursor.at < reply.len() {
                prop_assert!(cursor.token().is_ok());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
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
