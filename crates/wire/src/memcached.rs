//! Replies of memcached's text protocol.
//!
//! A reply is one line, or a list of items that ends with `END` or an error. An item is a line and
//! a block of bytes. A [`Scan`] finds the end of a reply, then the reply is read in place. Neither
//! allocates. The scan resumes at the last complete item when more bytes arrive. Source:
//! memcached's `doc/protocol.txt`.

pub mod stream;

use kvmark_plan::Outcome;
use memchr::memchr;

/// Longest line and longest block that are accepted.
pub(crate) const LINE_MAX: usize = 8 << 10;
const LENGTH_MAX: usize = 1 << 30;
/// Prefix of a line in the list of all items.
const LISTED: &[u8] = b"key=";

/// The bytes don't follow memcached's text protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer isn't memcached's text protocol")]
pub struct Garbage;

/// A reply, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The command was executed.
    Done,
    /// The key doesn't exist, or it exists and must not.
    Nothing,
    /// Another client wrote the record since it was read.
    Changed,
    /// The new value of a counter.
    Number(&'a [u8]),
    /// Items; a get that finds nothing has an empty list.
    Items(Items<'a>),
    /// The block of a meta command.
    Block(&'a [u8]),
    /// An error of the server.
    Error(&'a [u8]),
    /// Information about the server.
    Other,
}

/// One item of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub block: &'a [u8],
    /// The number of its last write (`cas unique`), if requested.
    pub unique: &'a [u8],
}

/// The next element of a list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// An item.
    Item(Item<'a>),
    /// The regular end.
    End,
    /// An error ended the list.
    Error(&'a [u8]),
}

/// A line, by its meaning.
pub(crate) enum Line<'a> {
    /// The first line of an item of this length.
    Item {
        key: &'a [u8],
        length: usize,
        unique: &'a [u8],
    },
    /// The first line of a meta command's block of this length.
    Block(usize),
    /// One of several lines that end with `END`.
    Listed,
    End,
    Error,
    /// A complete reply.
    Word(Answer<'a>),
}

#[inline]
fn number(digits: &[u8]) -> Result<usize, Garbage> {
    // A valid length has ten digits at most.
    if digits.is_empty() || digits.len() > 10 {
        return Err(Garbage);
    }
    let mut number = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Garbage);
        }
        number = 10 * number + usize::from(digit);
    }
    if number <= LENGTH_MAX { Ok(number) } else { Err(Garbage) }
}

/// Splits off a short word.
#[inline]
fn short(bytes: &[u8]) -> (&[u8], &[u8]) {
    split(bytes, bytes.iter().position(|byte| *byte == b' '))
}

/// Splits at the next blank.
#[inline]
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    split(bytes, memchr(b' ', bytes))
}

#[inline]
fn split(bytes: &[u8], at: Option<usize>) -> (&[u8], &[u8]) {
    match at {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

/// The line at `from` without its end, and the index of the next line.
#[inline]
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, Garbage> {
    let rest = &bytes[from..];
    let searched = &rest[..rest.len().min(LINE_MAX)];
    let Some(end) = memchr(b'\n', searched) else {
        return if rest.len() >= LINE_MAX { Err(Garbage) } else { Ok(None) };
    };
    let text = match rest[..end].strip_suffix(b"\r") {
        Some(text) => text,
        // A line of the list of all items ends with a newline only.
        None if rest.starts_with(LISTED) => &rest[..end],
        None => return Err(Garbage),
    };
    Ok(Some((text, from + end + 1)))
}

#[inline]
pub(crate) fn read(line: &[u8]) -> Result<Line<'_>, Garbage> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        let (key, rest) = word(rest);
        let (flags, rest) = short(rest);
        let (length, unique) = short(rest);
        if key.is_empty() || flags.is_empty() {
            return Err(Garbage);
        }
        return Ok(Line::Item { key, length: number(length)?, unique });
    }
    match line {
        b"END" => Ok(Line::End),
        b"STORED" => Ok(Line::Word(Answer::Done)),
        _ => read_rare(line),
    }
}

fn read_rare(line: &[u8]) -> Result<Line<'_>, Garbage> {
    let (first, rest) = word(line);
    Ok(match first {
        b"VA" => Line::Block(number(word(rest).0)?),
        b"STAT" => Line::Listed,
        _ if first.starts_with(LISTED) => Line::Listed,
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Line::Error,
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" | b"RESET" | b"HD" | b"MN" => {
            Line::Word(Answer::Done)
        }
        b"NOT_STORED" | b"NOT_FOUND" | b"EN" | b"NF" | b"NS" => Line::Word(Answer::Nothing),
        b"EXISTS" | b"EX" => Line::Word(Answer::Changed),
        b"VERSION" | b"ME" | b"BUSY" | b"BADCLASS" => Line::Word(Answer::Other),
        _ if !line.is_empty() && line.len() <= 20 && line.iter().all(u8::is_ascii_digit) => {
            Line::Word(Answer::Number(line))
        }
        _ => return Err(Garbage),
    })
}

/// Index behind the block at `from` and its line end; `None` if the block isn't complete.
#[inline]
fn block_end(bytes: &[u8], from: usize, length: usize) -> Result<Option<usize>, Garbage> {
    let end = from + length + 2;
    match bytes.get(from + length..end) {
        Some(b"\r\n") => Ok(Some(end)),
        Some(_) => Err(Garbage),
        None => Ok(None),
    }
}

/// The index of the next line of a reply that isn't complete yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan(usize);

impl Scan {
    /// Continues with more bytes, which begin with the reply. Returns the length of the reply once
    /// it is complete.
    ///
    /// # Errors
    /// The bytes don't follow the protocol.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        loop {
            let Some((text, next)) = line(bytes, self.0)? else { return Ok(None) };
            let is_first = self.0 == 0;
            match read(text)? {
                Line::Item { length, .. } => match block_end(bytes, next, length)? {
                    Some(end) => self.0 = end,
                    None => return Ok(None),
                },
                Line::Listed => self.0 = next,
                Line::End | Line::Error => return Ok(Some(next)),
                Line::Block(length) if is_first => return block_end(bytes, next, length),
                Line::Word(_) if is_first => return Ok(Some(next)),
                Line::Block(_) | Line::Word(_) => return Err(Garbage),
            }
        }
    }
}

/// Interprets a complete reply.
///
/// # Errors
/// The bytes don't follow the protocol.
#[inline]
pub fn answer(reply: &[u8]) -> Result<Answer<'_>, Garbage> {
    // The usual reply isn't parsed twice: the scan has verified its items.
    if reply.starts_with(b"VALUE ") {
        return Ok(Answer::Items(Items { reply, at: 0 }));
    }
    let (text, next) = line(reply, 0)?.ok_or(Garbage)?;
    Ok(match read(text)? {
        Line::Item { .. } | Line::End => Answer::Items(Items { reply, at: 0 }),
        Line::Block(length) => Answer::Block(reply.get(next..next + length).ok_or(Garbage)?),
        Line::Listed => Answer::Other,
        Line::Error => Answer::Error(text),
        Line::Word(answer) => answer,
    })
}

/// The items of a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a> {
    reply: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// Reads the next item.
    ///
    /// # Errors
    /// The bytes don't follow the protocol.
    #[inline]
    pub fn next_item(&mut self) -> Result<Next<'a>, Garbage> {
        let (text, next) = line(self.reply, self.at)?.ok_or(Garbage)?;
        match read(text)? {
            Line::Item { key, length, unique } => {
                let block = self.reply.get(next..next + length).ok_or(Garbage)?;
                self.at = next + length + 2;
                Ok(Next::Item(Item { key, block, unique }))
            }
            Line::End => Ok(Next::End),
            Line::Error => Ok(Next::Error(text)),
            Line::Block(_) | Line::Listed | Line::Word(_) => Err(Garbage),
        }
    }
}

/// The names and values of a complete reply to `stats`.
pub fn stats(reply: &[u8]) -> impl Iterator<Item = (String, String)> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.trim_end().to_owned()))
    };
    text.lines().filter_map(pair).collect::<Vec<_>>().into_iter()
}

/// The outcome of an operation that the server answered with this error line.
pub fn outcome_of(line: &[u8]) -> Outcome {
    let Some(reason) = line.strip_prefix(b"SERVER_ERROR") else {
        let many = line == b"ERROR Too many open connections";
        return if many { Outcome::Overloaded } else { Outcome::Refused };
    };
    let contains = |words: &[u8]| reason.windows(words.len()).any(|part| part == words);
    if contains(b"out of memory") {
        Outcome::Overloaded
    } else if contains(b"too large") {
        Outcome::Refused
    } else {
        // A proxy reports the server behind it this way.
        Outcome::Unavailable
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scanned(bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        Scan::default().advance(bytes)
    }

    /// Any reply, as a server would write it.
    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let key = "[!-~]{1,20}";
        let block = prop_oneof![
            any::<Vec<u8>>(),
            prop::collection::vec(prop::sample::select(b"\r\nEND VALUE".to_vec()), 0..40),
        ];
        let item = (key, any::<u32>(), block.clone(), any::<Option<u64>>()).prop_map(
            |(key, flags, block, unique)| {
                let unique = unique.map_or(String::new(), |unique| format!(" {unique}"));
                let line = format!("VALUE {key} {flags} {}{unique}\r\n", block.len());
                [line.as_bytes(), &block, b"\r\n"].concat()
            },
        );
        let ends = vec!["END\r\n", "SERVER_ERROR out of memory writing get response\r\n"];
        let words = vec![
            "STORED\r\n",
            "NOT_STORED\r\n",
            "EXISTS\r\n",
            "NOT_FOUND\r\n",
            "DELETED\r\n",
            "OK\r\n",
            "TOUCHED\r\n",
            "ERROR\r\n",
            "CLIENT_ERROR no\r\n",
            "SERVER_ERROR object too large\r\n",
            "VERSION 1.6.18\r\n",
            "HD t60\r\n",
            "EN\r\n",
            "NF\r\n",
            "NS\r\n",
            "EX\r\n",
            "MN\r\n",
        ];
        prop_oneof![
            (prop::collection::vec(item, 0..4), prop::sample::select(ends))
                .prop_map(|(items, end)| [&items.concat(), end.as_bytes()].concat()),
            prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
            any::<u64>().prop_map(|number| format!("{number}\r\n").into_bytes()),
            block.prop_map(|block| {
                [format!("VA {} t60\r\n", block.len()).as_bytes(), &block, b"\r\n"].concat()
            }),
            Just(b"STAT pid 1\r\nSTAT version 1.6\r\nEND\r\n".to_vec()),
        ]
    }

    #[test]
    fn each_reply_has_one_meaning() {
        let cases: [(&[u8], Answer<'_>); 10] = [
            (b"STORED\r\n", Answer::Done),
            (b"HD s5\r\n", Answer::Done),
            (b"NOT_FOUND\r\n", Answer::Nothing),
            (b"EX\r\n", Answer::Changed),
            (b"18446744073709551615\r\n", Answer::Number(b"18446744073709551615")),
            (b"VA 2 t\r\n\r\n\r\n", Answer::Block(b"\r\n")),
            (b"CLIENT_ERROR bad\r\n", Answer::Error(b"CLIENT_ERROR bad")),
            (b"ERROR\r\n", Answer::Error(b"ERROR")),
            (b"STAT a b\r\nEND\r\n", Answer::Other),
            (b"key=a exp=-1 la=1 cas=2 fetch=no cls=1 size=66\nEND\r\n", Answer::Other),
        ];
        for (bytes, expected) in cases {
            assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
            assert_eq!(answer(bytes), Ok(expected));
        }
    }

    #[test]
    fn items_have_key_block_and_number_and_end_with_end_or_an_error() {
        let bytes = b"VALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 0 42\r\n\r\nSERVER_ERROR x\r\n";
        assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
        let Ok(Answer::Items(mut items)) = answer(bytes) else { panic!("they are items") };
        let item = |key, block, unique| Ok(Next::Item(Item { key, block, unique }));
        assert_eq!(items.next_item(), item(b"a", b"END\r\n", b""));
        assert_eq!(items.next_item(), item(b"b", b"", b"42"));
        assert_eq!(items.next_item(), Ok(Next::Error(b"SERVER_ERROR x")));
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let malformed: [&[u8]; 13] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"+OK\r\n",
            b"STORED\n",
            b"\r\n",
            b"VALUE\r\n",
            b"VALUE a 0\r\n",
            b"VALUE a 0 x\r\n",
            b"VALUE a 0 99999999999\r\n",
            b"VALUE a 0 1\r\nabc\r\n",
            b"VALUE a 0 1\r\na\r\nSTORED\r\n",
            b"VA -1\r\n",
            b"12a\r\n",
            b"123456789012345678901\r\n",
        ];
        for bytes in malformed {
            assert_eq!(scanned(bytes), Err(Garbage), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(scanned(&[b'E'; LINE_MAX]), Err(Garbage));
    }

    #[test]
    fn statistics_are_pairs() {
        let pairs: Vec<_> = stats(b"STAT pid 1\r\nSTAT version 1.6 x\r\nEND\r\n").collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs, [pair("pid", "1"), pair("version", "1.6 x")]);
    }

    #[test]
    fn each_error_has_an_outcome() {
        let cases = [
            ("ERROR", Outcome::Refused),
            ("ERROR Too many open connections", Outcome::Overloaded),
            ("CLIENT_ERROR bad data chunk", Outcome::Refused),
            ("CLIENT_ERROR unauthenticated", Outcome::Refused),
            ("SERVER_ERROR out of memory storing object", Outcome::Overloaded),
            ("SERVER_ERROR out of memory writing get response", Outcome::Overloaded),
            ("SERVER_ERROR object too large for cache", Outcome::Refused),
            ("SERVER_ERROR Connection refused", Outcome::Unavailable),
        ];
        for (line, outcome) in cases {
            assert_eq!(outcome_of(line.as_bytes()), outcome, "{line}");
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
            let mut one_by_one = Scan::default();
            for end in 0..reply.len() {
                prop_assert_eq!(one_by_one.advance(&bytes[..end]), Ok(None));
                prop_assert_eq!(scanned(&bytes[..end]), Ok(None));
            }
            prop_assert_eq!(one_by_one.advance(&bytes), Ok(Some(reply.len())));
        }

        #[test]
        fn the_items_of_a_scanned_reply_can_be_read_to_their_end(reply in reply()) {
            if let Answer::Items(mut items) = answer(&reply).unwrap() {
                while let Next::Item(_) = items.next_item().unwrap() {}
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(b"VALUE ND019\r\n".to_vec()),
                    any::<u8>(),
                ],
                0..64,
            ),
            begins in prop::sample::select(vec!["", "VALUE a 0 ", "VA ", "STAT "]),
        ) {
            let bytes = [begins.as_bytes(), &bytes].concat();
            let complete = scanned(&bytes);
            prop_assert!(complete.is_err() || complete.is_ok_and(|end| end <= Some(bytes.len())));
            if let Ok(Answer::Items(mut items)) = answer(&bytes) {
                while let Ok(Next::Item(_)) = items.next_item() {}
            }
        }
    }
}
