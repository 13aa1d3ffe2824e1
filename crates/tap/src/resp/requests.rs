//! A stream of requests: arrays of strings, or lines of words. Strings aren't buffered.

use kvmark_trace::tape::Record;
use kvmark_trace::verbs::{Command, Plain};
use kvmark_wire::number::parse;
use kvmark_wire::{Malformed, skip_value};

use crate::content::{Contents, Keeper, Role};
use crate::recorder::{Key, Keys, Operation};
use crate::verbs::{Effect, NAME_MAX, OTHERS, Verbs};
use crate::word::Word;

/// Longest inline request that servers accept.
const INLINE_MAX: usize = 64 << 10;
/// Longest line with a number.
const NUMBER_MAX: usize = 32;
/// Greatest number of words in a request, and longest word.
const WORDS_MAX: i64 = 1 << 31;
const WORD_MAX: i64 = 1 << 40;
/// Greatest word count on the fast path.
const WORDS_AT_ONCE: usize = 8;

const NO_NUMBER: Malformed = Malformed("a length in a request isn't a number");

/// The number of bytes read, and the request that they end.
pub(super) type Taken = Result<(usize, Option<Request>), Malformed>;

/// A complete request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Whether it is CLIENT REPLY, which changes the requests that are answered.
    pub(super) is_client_reply: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between requests.
    Start,
    /// In the line with the number of words.
    Count,
    /// In the line with the length of the next word.
    Length,
    /// In a word and its line end.
    Body { left: u64 },
    /// In a line of words.
    Inline,
}

/// The state of a connection's requests.
pub(super) struct Requests {
    state: State,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    words_left: i64,
    word: Word,
    building: Building,
}

/// An incomplete request.
struct Building {
    words: u64,
    verb: u16,
    command: Command,
    keys: Keys,
    is_client_reply: bool,
    keeper: Keeper,
    contents: Contents,
}

impl Requests {
    pub(super) fn new(keeper: Keeper) -> Self {
        Self {
            state: State::Start,
            line: Vec::new(),
            words_left: 0,
            word: Word::new(),
            building: Building::new(keeper),
        }
    }

    /// Reads bytes up to the end of the next request. Returns the number of bytes read.
    pub(super) fn next(&mut self, bytes: &[u8], verbs: &mut Verbs) -> Taken {
        if self.state == State::Start
            && !self.building.keeper.keeps_any()
            && let Some((taken, request)) = self.short_request(bytes, verbs)
        {
            return Ok((taken, Some(request)));
        }
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Start => match rest[0] {
                    b'*' => {
                        at += 1;
                        self.state = State::Count;
                    }
                    b'\r' | b'\n' => at += 1,
                    _ => self.state = State::Inline,
                },
                State::Count | State::Length => {
                    let (taken, number) = self.number_line(rest)?;
                    at += taken;
                    if let Some(number) = number {
                        self.take_number(number)?;
                    }
                }
                State::Body { left } => {
                    let why = "a word is longer than its header states";
                    let (taken, after) = skip_value(rest, left, why)?;
                    // Without the line's end.
                    let content = taken.min(left.saturating_sub(2) as usize);
                    self.word.add(&rest[..content]);
                    at += taken;
                    self.state = State::Body { left: after };
                    if after == 0 && self.word_ends(verbs) {
                        return Ok((at, Some(self.building.finish())));
                    }
                }
                State::Inline => {
                    let (taken, request) = self.inline(rest, verbs)?;
                    at += taken;
                    if request.is_some() {
                        return Ok((at, request));
                    }
                }
            }
        }
        Ok((at, None))
    }

    /// The fast path for a complete request of a few words whose contents aren't kept. Returns
    /// `None` for any other request and reads nothing then.
    fn short_request(&mut self, bytes: &[u8], verbs: &mut Verbs) -> Option<(usize, Request)> {
        let (count, mut at) = number_line(bytes.strip_prefix(b"*")?)?;
        at += 1;
        let mut words = [(0, 0); WORDS_AT_ONCE];
        for place in words.get_mut(..count).filter(|_| count > 0)? {
            let (length, taken) = number_line(bytes.get(at..)?.strip_prefix(b"$")?)?;
            let from = at + 1 + taken;
            let end = from + length;
            if bytes.get(end..end + 2)? != b"\r\n" {
                return None;
            }
            *place = (from, end);
            at = end + 2;
        }
        let word = |place: usize| &bytes[words[place].0..words[place].1];
        if let Some(verb) = verbs.again(word(0))
            && let Some(plain) = verbs.get(verb).command.plain(count - 1)
        {
            let key = Key {
                hash: self.building.keeper.hash_key.hash(word(1)),
                size: word(1).len() as u32,
            };
            let value_size = match plain {
                Plain::Key => Record::UNKNOWN,
                Plain::KeyAndValue => word(2).len() as u32,
            };
            let keys = Keys { first: Some(key), ..Keys::default() };
            let operation = Operation { verb, keys, value_size, ttl_ms: 0, contents: None };
            return Some((at, Request { operation, is_client_reply: false }));
        }
        let building = &mut self.building;
        for place in 0..count {
            let word = word(place);
            let is_key = building.words > 0 && building.command.awaits_key();
            let size = u32::try_from(word.len()).unwrap_or(u32::MAX);
            let key = is_key.then(|| Key { hash: building.keeper.hash_key.hash(word), size });
            let head = if is_key { &[] } else { &word[..word.len().min(NAME_MAX)] };
            building.end_word(word.len() as u64, head, key, verbs);
        }
        Some((at, building.finish()))
    }

    /// Reads a line with a number; the number once the line is complete.
    fn number_line(&mut self, rest: &[u8]) -> Result<(usize, Option<i64>), Malformed> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(rest.len(), |end| end + 1);
        if self.line.len() + taken > NUMBER_MAX {
            return Err(NO_NUMBER);
        }
        let is_whole = self.line.is_empty() && end.is_some();
        if !is_whole {
            self.line.extend_from_slice(&rest[..taken]);
        }
        if end.is_none() {
            return Ok((taken, None));
        }
        let line = if is_whole { &rest[..taken] } else { &self.line };
        let text = line.strip_suffix(b"\r\n");
        let text = match self.state {
            State::Length => text.and_then(|text| text.strip_prefix(b"$")),
            _ => text,
        };
        let number = text.and_then(parse).ok_or(NO_NUMBER)?;
        self.line.clear();
        Ok((taken, Some(number)))
    }

    fn take_number(&mut self, number: i64) -> Result<(), Malformed> {
        if self.state == State::Count {
            if number > WORDS_MAX {
                return Err(Malformed("a request has too many words"));
            }
            self.words_left = number;
            // Servers ignore a request without words.
            self.state = if number > 0 { State::Length } else { State::Start };
            return Ok(());
        }
        if !(0..=WORD_MAX).contains(&number) {
            return Err(Malformed("a request's word is too long"));
        }
        self.word.begin(self.building.role(), &self.building.keeper);
        self.state = State::Body { left: number as u64 + 2 };
        Ok(())
    }

    /// Ends a word. Returns whether it was the last one.
    fn word_ends(&mut self, verbs: &mut Verbs) -> bool {
        self.building.end(&mut self.word, verbs);
        self.words_left -= 1;
        self.state = if self.words_left > 0 { State::Length } else { State::Start };
        self.words_left == 0
    }

    fn inline(&mut self, rest: &[u8], verbs: &mut Verbs) -> Taken {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(rest.len(), |end| end + 1);
        if self.line.len() + taken > INLINE_MAX {
            return Err(Malformed("a request's line is too long"));
        }
        self.line.extend_from_slice(&rest[..taken]);
        if end.is_none() {
            return Ok((taken, None));
        }
        self.state = State::Start;
        let words = split(&std::mem::take(&mut self.line))?;
        for word in &words {
            self.word.begin(self.building.role(), &self.building.keeper);
            self.word.add(word);
            self.building.end(&mut self.word, verbs);
        }
        Ok((taken, (!words.is_empty()).then(|| self.building.finish())))
    }
}

impl Building {
    fn new(keeper: Keeper) -> Self {
        Self {
            words: 0,
            verb: OTHERS,
            command: Command::named(""),
            keys: Keys::default(),
            is_client_reply: false,
            keeper,
            contents: Contents::default(),
        }
    }

    /// The role of the next word.
    fn role(&self) -> Role {
        match &self.command {
            _ if self.words == 0 => Role::Other,
            command if command.awaits_key() => Role::Key,
            command if command.awaits_value() => Role::Value,
            _ => Role::Other,
        }
    }

    /// Takes a word, received in pieces.
    fn end(&mut self, word: &mut Word, verbs: &mut Verbs) {
        let role = self.role();
        let is_recorded = self.end_word(word.size(), word.head(), word.key(), verbs);
        match role {
            Role::Key if self.keeper.keeps(role) && is_recorded => {
                self.contents.add_key(word.take_content());
            }
            Role::Value if self.keeper.keeps(role) => self.contents.add_value(word.take_content()),
            Role::Key | Role::Value | Role::Other => {}
        }
    }

    /// Takes a word by its length and either its key or its first bytes. Returns whether a key is
    /// recorded.
    #[inline]
    fn end_word(&mut self, size: u64, head: &[u8], key: Option<Key>, verbs: &mut Verbs) -> bool {
        self.words += 1;
        if self.words == 1 {
            let again = verbs.again(head).filter(|_| size == head.len() as u64);
            self.verb = again.unwrap_or_else(|| named(size, head, verbs));
            self.command = verbs.get(self.verb).command;
            return false;
        }
        if self.words == 2 && verbs.get(self.verb).effect == Effect::Client {
            self.is_client_reply = size == 5 && head.eq_ignore_ascii_case(b"REPLY");
        }
        self.command.word(size, head);
        key.is_some_and(|key| self.keys.push(key))
    }

    fn finish(&mut self) -> Request {
        let value = self.command.value_bytes();
        let value_size = value
            .map_or(Record::UNKNOWN, |bytes| u32::try_from(bytes).unwrap_or(Record::UNKNOWN - 1));
        self.words = 0;
        Request {
            operation: Operation {
                verb: self.verb,
                keys: std::mem::take(&mut self.keys),
                value_size,
                ttl_ms: self.command.ttl_ms().unwrap_or(0),
                contents: self.contents.take(),
            },
            is_client_reply: std::mem::take(&mut self.is_client_reply),
        }
    }
}

/// A number of at most nine digits with the end of its line, and their length in bytes.
#[inline]
fn number_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        match byte {
            b'0'..=b'9' if place < 9 => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if place > 0 && bytes.get(place + 1) == Some(&b'\n') => {
                return Some((number, place + 2));
            }
            _ => return None,
        }
    }
    None
}

/// The number of a command's name, of which `head` is the beginning.
#[cold]
fn named(size: u64, head: &[u8], verbs: &mut Verbs) -> u16 {
    if size > NAME_MAX as u64 { OTHERS } else { verbs.number(&head.to_ascii_uppercase()) }
}

/// Splits a line into words, with quotes as in `sdssplitargs` of Redis.
fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let mut word = Vec::new();
        while let Some((&byte, behind)) = rest.split_first() {
            if byte.is_ascii_whitespace() {
                break;
            }
            rest = behind;
            match byte {
                b'"' | b'\'' => rest = quoted(rest, byte, &mut word)?,
                _ => word.push(byte),
            }
        }
        words.push(word);
    }
}

/// Adds the quoted text to a word. Returns the remaining line.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Result<&'a [u8], Malformed> {
    let open = Malformed("a quote in a request's line isn't closed");
    loop {
        let (&byte, behind) = rest.split_first().ok_or(open)?;
        rest = behind;
        if byte == quote {
            return Ok(rest);
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        let (&sign, behind) = rest.split_first().ok_or(open)?;
        if quote == b'\'' {
            if sign == b'\'' {
                rest = behind;
            }
            word.push(if sign == b'\'' { b'\'' } else { b'\\' });
            continue;
        }
        rest = behind;
        let hex = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let hex = hex.filter(|_| sign == b'x').and_then(|text| u8::from_str_radix(text, 16).ok());
        if let Some(code) = hex {
            word.push(code);
            rest = &rest[2..];
            continue;
        }
        let plain = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'), (b'b', 8), (b'a', 7)];
        let found = plain.iter().find(|(name, _)| *name == sign);
        word.push(found.map_or(sign, |(_, code)| *code));
    }
}
