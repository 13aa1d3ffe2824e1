//! A stream of requests: lines of words, some followed by a value. Values aren't buffered.

use kvmark_trace::tape::Record;
use kvmark_wire::memcached::stream::LONG_VALUE;
use kvmark_wire::{Malformed, skip_value};

use crate::content::{Contents, Keeper, Role};
use crate::recorder::{Keys, Operation};
use crate::verbs::{NAME_MAX, OTHERS, Verbs};
use crate::word::Word;

/// Longest value that is accepted.
const VALUE_MAX: i64 = 1 << 32;
/// Greater times to live are absolute times, in seconds.
const TTL_MAX_S: i64 = 30 * 24 * 3600;

/// The expected reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// VALUE for each existing key, then END.
    Values,
    /// One line.
    Line,
    /// Lines until END.
    Listing,
    /// One line of a meta command, with or without a value.
    Meta,
    /// MN only.
    NoOperation,
    /// Nothing.
    Nothing,
    /// A meta command that may omit its reply.
    Quiet,
}

/// The number of bytes read, and the request that they end.
pub(super) type Taken = Result<(usize, Option<Request>), Malformed>;

/// A complete request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) expects: Expects,
}

/// The form of a command: the positions of its keys and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Keys after this many other words.
    Get {
        before: u64,
    },
    /// Key, flags, time, bytes.
    Store,
    /// A key and a time.
    Touch,
    /// A key.
    Key,
    /// A key and flags.
    Meta,
    /// A key, bytes and flags.
    MetaSet,
    Nop,
    Stats,
    Quit,
    Plain,
}

fn form_of(name: &str) -> Form {
    match name {
        "get" | "gets" => Form::Get { before: 0 },
        "gat" | "gats" => Form::Get { before: 1 },
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => Form::Store,
        "touch" => Form::Touch,
        "delete" | "incr" | "decr" => Form::Key,
        "mg" | "md" | "ma" | "me" => Form::Meta,
        "ms" => Form::MetaSet,
        "mn" => Form::Nop,
        "stats" => Form::Stats,
        "quit" | "shutdown" => Form::Quit,
        _ => Form::Plain,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two words.
    Gap,
    InWord,
    /// In a value and its line end.
    Value {
        left: u64,
    },
}

/// The state of a connection's requests.
pub(super) struct Requests {
    state: State,
    is_first: bool,
    word: Word,
    /// The number of words so far, including the name.
    words: u64,
    verb: u16,
    form: Form,
    keys: Keys,
    value: Option<i64>,
    ttl_s: i64,
    is_quiet: bool,
    start_unix_s: i64,
    keeper: Keeper,
    contents: Contents,
    /// Whether this is the first request, which may be a login: a `set` of name and password.
    may_log_in: bool,
}

impl Requests {
    pub(super) fn new(start_unix_s: i64, keeper: Keeper) -> Self {
        Self {
            state: State::Gap,
            is_first: true,
            word: Word::new(),
            words: 0,
            verb: OTHERS,
            form: Form::Plain,
            keys: Keys::default(),
            value: None,
            ttl_s: 0,
            is_quiet: false,
            start_unix_s,
            keeper,
            contents: Contents::default(),
            may_log_in: true,
        }
    }

    /// Whether the first bytes of the connection belong to the binary protocol.
    pub(super) fn are_binary(&mut self, bytes: &[u8]) -> bool {
        std::mem::take(&mut self.is_first) && bytes.first() == Some(&0x80)
    }

    /// Reads bytes up to the end of the next request. Returns the number of bytes read.
    pub(super) fn next(&mut self, bytes: &[u8], verbs: &mut Verbs) -> Taken {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Value { left } => {
                    let (taken, after) = skip_value(rest, left, LONG_VALUE)?;
                    // Without the line's end.
                    let content = taken.min(left.saturating_sub(2) as usize);
                    self.word.add(&rest[..content]);
                    at += taken;
                    let left = after;
                    self.state = State::Value { left };
                    if left == 0 {
                        if self.keeper.keeps(self.value_role()) {
                            self.contents.add_value(self.word.take_content());
                        }
                        return Ok((at, Some(self.finish())));
                    }
                }
                State::InWord => {
                    let ends = |byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
                    let end = rest.iter().position(ends);
                    let taken = end.unwrap_or(rest.len());
                    self.word.add(&rest[..taken]);
                    at += taken;
                    if end.is_some() {
                        self.end_word(verbs);
                        self.state = State::Gap;
                    }
                }
                State::Gap => match rest[0] {
                    b' ' | b'\r' => at += 1,
                    b'\n' => {
                        at += 1;
                        if self.line_ends()? {
                            return Ok((at, Some(self.finish())));
                        }
                    }
                    _ => {
                        let is_key = self.awaits_key();
                        let role = if is_key { Role::Key } else { Role::Other };
                        self.word.begin(role, &self.keeper);
                        self.state = State::InWord;
                    }
                },
            }
        }
        Ok((at, None))
    }

    fn awaits_key(&self) -> bool {
        match self.form {
            _ if self.words == 0 => false,
            Form::Get { before } => self.words > before,
            Form::Store | Form::Touch | Form::Key | Form::Meta | Form::MetaSet => self.words == 1,
            Form::Nop | Form::Stats | Form::Quit | Form::Plain => false,
        }
    }

    fn end_word(&mut self, verbs: &mut Verbs) {
        let place = self.words;
        self.words += 1;
        if place == 0 {
            let is_whole = self.word.size() <= NAME_MAX as u64;
            self.verb = if is_whole { verbs.number(self.word.head()) } else { OTHERS };
            self.form = form_of(&verbs.get(self.verb).name);
            return;
        }
        let is_recorded = self.word.key().is_some_and(|key| self.keys.push(key));
        if is_recorded && self.keeper.keeps(Role::Key) {
            self.contents.add_key(self.word.take_content());
        }
        let number = self.word.number();
        let head = self.word.head();
        match (self.form, place) {
            (Form::Get { before: 1 }, 1) | (Form::Touch, 2) | (Form::Store, 3) => {
                self.ttl_s = number.unwrap_or(0);
            }
            (Form::Store, 4) | (Form::MetaSet, 2) => self.value = Some(number.unwrap_or(-1)),
            (Form::Meta | Form::MetaSet, 2..) => match head.split_first() {
                Some((b'T', ttl)) => {
                    let ttl = std::str::from_utf8(ttl).ok().and_then(|text| text.parse().ok());
                    self.ttl_s = ttl.unwrap_or(0);
                }
                Some((b'q', [])) => self.is_quiet = true,
                _ => {}
            },
            (Form::Store | Form::Touch | Form::Key | Form::Plain, 1..) => {
                self.is_quiet = head == b"noreply";
            }
            _ => {}
        }
    }

    /// Ends a line. Returns whether the request is complete, that is, has no value.
    fn line_ends(&mut self) -> Result<bool, Malformed> {
        match self.value {
            // The server rejects a line without a length and expects no value then.
            Some(size @ 0..=VALUE_MAX) => {
                self.word.begin(self.value_role(), &self.keeper);
                self.state = State::Value { left: size as u64 + 2 };
                Ok(false)
            }
            Some(_) => Err(Malformed("a value has no length")),
            None => Ok(self.words > 0),
        }
    }

    fn value_role(&self) -> Role {
        if self.may_log_in { Role::Other } else { Role::Value }
    }

    fn finish(&mut self) -> Request {
        let expects = match self.form {
            Form::Get { .. } => Expects::Values,
            Form::Meta | Form::MetaSet if self.is_quiet => Expects::Quiet,
            Form::Meta | Form::MetaSet => Expects::Meta,
            Form::Nop => Expects::NoOperation,
            Form::Stats => Expects::Listing,
            Form::Quit => Expects::Nothing,
            Form::Store | Form::Touch | Form::Key | Form::Plain if self.is_quiet => {
                Expects::Nothing
            }
            Form::Store | Form::Touch | Form::Key | Form::Plain => Expects::Line,
        };
        let value_size = self.value.and_then(|size| u32::try_from(size).ok());
        let ttl_s =
            if self.ttl_s > TTL_MAX_S { self.ttl_s - self.start_unix_s } else { self.ttl_s };
        let request = Request {
            operation: Operation {
                verb: self.verb,
                keys: std::mem::take(&mut self.keys),
                value_size: value_size.unwrap_or(Record::UNKNOWN),
                ttl_ms: u64::try_from(ttl_s).unwrap_or(0).saturating_mul(1000),
                contents: self.contents.take(),
            },
            expects,
        };
        (self.state, self.words, self.form) = (State::Gap, 0, Form::Plain);
        (self.value, self.ttl_s, self.is_quiet) = (None, 0, false);
        self.may_log_in = false;
        request
    }
}
