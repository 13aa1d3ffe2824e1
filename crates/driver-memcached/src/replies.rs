//! Replies of memcached's text protocol.
//!
//! A reply is one line, or items that each are a line and a block of bytes and that `END` or an
//! error ends. It is first scanned to its end, then read in place; neither allocates. The scan
//! takes up at the last whole item when more bytes come. Source: memcached's `doc/protocol.txt`.

use memchr::memchr;

/// Longest line and longest block that are believed.
const LINE_MAX: usize = 8 << 10;
const LENGTH_MAX: usize = 1 << 30;
/// How the line of an item begins in the list of all.
const LISTED: &[u8] = b"key=";

/// The bytes aren't the text protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer isn't memcached's text protocol")]
pub(crate) struct Garbage;

/// What a command's reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// It was done.
    Done,
    /// There was nothing to do it with, or it was there already.
    Nothing,
    /// Somebody else wrote meanwhile.
    Changed,
    /// The number that there is now.
    Number(&'a [u8]),
    /// Items; none is there when there are none.
    Items(Items<'a>),
    /// The block of a meta command.
    Block(&'a [u8]),
    /// The server's refusal.
    Error(&'a [u8]),
    /// What it says about itself.
    Other,
}

/// One of a get's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) block: &'a [u8],
    /// The number of its last write, where that was asked for.
    pub(crate) unique: &'a [u8],
}

/// What comes next among the items of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    Item(Item<'a>),
    End,
    Error(&'a [u8]),
}

/// What a line is.
enum Line<'a> {
    /// The line of an item of so many bytes, with its key and number.
    Item {
        key: &'a [u8],
        length: usize,
        unique: &'a [u8],
    },
    /// The line of a meta command's block of so many bytes.
    Block(usize),
    /// One of several that an end follows.
    Told,
    End,
    Error,
    /// A reply of its own.
    Word(Said<'a>),
}

#[inline]
fn number(digits: &[u8]) -> Result<usize, Garbage> {
    // The longest has nine or ten digits.
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

/// A word of a few bytes, and what stands behind its blank.
#[inline]
fn short(bytes: &[u8]) -> (&[u8], &[u8]) {
    split(bytes, bytes.iter().position(|byte| *byte == b' '))
}

/// What stands before the next blank, and behind it.
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

/// The line that begins here, without its end, and where the next one begins.
#[inline]
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, Garbage> {
    let rest = &bytes[from..];
    let believed = &rest[..rest.len().min(LINE_MAX)];
    let Some(end) = memchr(b'\n', believed) else {
        return if rest.len() >= LINE_MAX { Err(Garbage) } else { Ok(None) };
    };
    let text = match rest[..end].strip_suffix(b"\r") {
        Some(text) => text,
        // A line of the list of all items ends with the newline alone.
        None if rest.starts_with(LISTED) => &rest[..end],
        None => return Err(Garbage),
    };
    Ok(Some((text, from + end + 1)))
}

#[inline]
fn read(line: &[u8]) -> Result<Line<'_>, Garbage> {
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
        b"STORED" => Ok(Line::Word(Said::Done)),
        _ => read_rare(line),
    }
}

fn read_rare(line: &[u8]) -> Result<Line<'_>, Garbage> {
    let (first, rest) = word(line);
    Ok(match first {
        b"VA" => Line::Block(number(word(rest).0)?),
        b"STAT" => Line::Told,
        _ if first.starts_with(LISTED) => Line::Told,
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Line::Error,
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" | b"RESET" | b"HD" | b"MN" => {
            Line::Word(Said::Done)
        }
        b"NOT_STORED" | b"NOT_FOUND" | b"EN" | b"NF" | b"NS" => Line::Word(Said::Nothing),
        b"EXISTS" | b"EX" => Line::Word(Said::Changed),
        b"VERSION" | b"ME" | b"BUSY" | b"BADCLASS" => Line::Word(Said::Other),
        _ if !line.is_empty() && line.len() <= 20 && line.iter().all(u8::is_ascii_digit) => {
            Line::Word(Said::Number(line))
        }
        _ => return Err(Garbage),
    })
}

/// Where the block ends that begins here, with its line end; none when it isn't whole.
#[inline]
fn block_end(bytes: &[u8], from: usize, length: usize) -> Result<Option<usize>, Garbage> {
    let end = from + length + 2;
    match bytes.get(from + length..end) {
        Some(b"\r\n") => Ok(Some(end)),
        Some(_) => Err(Garbage),
        None => Ok(None),
    }
}

/// How far a reply was scanned: where its next line begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan(usize);

impl Scan {
    /// Goes on; the length of the reply when it is complete. `bytes` begin with the reply.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        loop {
            let Some((text, next)) = line(bytes, self.0)? else { return Ok(None) };
            let is_first = self.0 == 0;
            match read(text)? {
                Line::Item { length, .. } => match block_end(bytes, next, length)? {
                    Some(end) => self.0 = end,
                    None => return Ok(None),
                },
                Line::Told => self.0 = next,
                Line::End | Line::Error => return Ok(Some(next)),
                Line::Block(length) if is_first => return block_end(bytes, next, length),
                Line::Word(_) if is_first => return Ok(Some(next)),
                Line::Block(_) | Line::Word(_) => return Err(Garbage),
            }
        }
    }
}

/// What a complete reply says.
#[inline]
pub(crate) fn said(reply: &[u8]) -> Result<Said<'_>, Garbage> {
    // What is usual isn't looked at twice: the scan has seen that they are items.
    if reply.starts_with(b"VALUE ") {
        return Ok(Said::Items(Items { reply, at: 0 }));
    }
    let (text, next) = line(reply, 0)?.ok_or(Garbage)?;
    Ok(match read(text)? {
        Line::Item { .. } | Line::End => Said::Items(Items { reply, at: 0 }),
        Line::Block(length) => Said::Block(reply.get(next..next + length).ok_or(Garbage)?),
        Line::Told => Said::Other,
        Line::Error => Said::Error(text),
        Line::Word(said) => said,
    })
}

/// The items of a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Items<'a> {
    reply: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// What comes next.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Next<'a>, Garbage> {
        let (text, next) = line(self.reply, self.at)?.ok_or(Garbage)?;
        match read(text)? {
            Line::Item { key, length, unique } => {
                let block = self.reply.get(next..next + length).ok_or(Garbage)?;
                self.at = next + length + 2;
                Ok(Next::Item(Item { key, block, unique }))
            }
            Line::End => Ok(Next::End),
            Line::Error => Ok(Next::Error(text)),
            Line::Block(_) | Line::Told | Line::Word(_) => Err(Garbage),
        }
    }
}

/// The pairs of a complete reply to `stats`.
pub(crate) fn told(reply: &[u8]) -> impl Iterator<Item = (String, String)> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.trim_end().to_owned()))
    };
    text.lines().filter_map(pair).collect::<Vec<_>>().into_iter()
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
    fn each_reply_says_one_thing() {
        let cases: [(&[u8], Said<'_>); 10] = [
            (b"STORED\r\n", Said::Done),
            (b"HD s5\r\n", Said::Done),
            (b"NOT_FOUND\r\n", Said::Nothing),
            (b"EX\r\n", Said::Changed),
            (b"18446744073709551615\r\n", Said::Number(b"18446744073709551615")),
            (b"VA 2 t\r\n\r\n\r\n", Said::Block(b"\r\n")),
            (b"CLIENT_ERROR bad\r\n", Said::Error(b"CLIENT_ERROR bad")),
            (b"ERROR\r\n", Said::Error(b"ERROR")),
            (b"STAT a b\r\nEND\r\n", Said::Other),
            (b"key=a exp=-1 la=1 cas=2 fetch=no cls=1 size=66\nEND\r\n", Said::Other),
        ];
        for (bytes, expected) in cases {
            assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
            assert_eq!(said(bytes), Ok(expected));
        }
    }

    #[test]
    fn items_come_with_key_block_and_number_and_end_by_an_end_or_an_error() {
        let bytes = b"VALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 0 42\r\n\r\nSERVER_ERROR x\r\n";
        assert_eq!(scanned(bytes), Ok(Some(bytes.len())));
        let Ok(Said::Items(mut items)) = said(bytes) else { panic!("they are items") };
        let item = |key, block, unique| Ok(Next::Item(Item { key, block, unique }));
        assert_eq!(items.next(), item(b"a", b"END\r\n", b""));
        assert_eq!(items.next(), item(b"b", b"", b"42"));
        assert_eq!(items.next(), Ok(Next::Error(b"SERVER_ERROR x")));
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        let refused: [&[u8]; 13] = [
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
        for bytes in refused {
            assert_eq!(scanned(bytes), Err(Garbage), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(scanned(&[b'E'; LINE_MAX]), Err(Garbage));
    }

    #[test]
    fn what_a_server_tells_is_pairs() {
        let pairs: Vec<_> = told(b"STAT pid 1\r\nSTAT version 1.6 x\r\nEND\r\n").collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs, [pair("pid", "1"), pair("version", "1.6 x")]);
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
        fn a_scanned_reply_can_be_read_to_its_end(reply in reply()) {
            if let Said::Items(mut items) = said(&reply).unwrap() {
                while let Next::Item(_) = items.next().unwrap() {}
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
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
            if let Ok(Said::Items(mut items)) = said(&bytes) {
                while let Ok(Next::Item(_)) = items.next() {}
            }
        }
    }
}
