//! Compiled statements: constant bytes with arguments between them.
//!
//! Constant parts with their protocol headers are encoded when the driver opens. Encoding an
//! operation copies these bytes and the arguments, without an allocation.

use kvmark_driver::{Call, OpenError, Slot};
use kvmark_driver_server::template::{Names, Template, append, compile};
use kvmark_driver_server::words::{Group, Word, WordPart, words};
use kvmark_plan::Statement;

use crate::argument::{leaves, put_argument};
use kvmark_wire::resp::{put_command, put_joined, put_part};

/// A statement, ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    commands: Vec<Command>,
    /// Whether a command has a part per item.
    by_item: bool,
    /// Whether its commands are a transaction with MULTI and EXEC.
    pub(crate) is_transaction: bool,
}

/// The text's words in capitals.
fn capitals(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_ascii_uppercase)
}

/// How a reply shows the effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// An empty reply means that the write wasn't applied.
    Done,
    /// An empty reply or 0 means that the write wasn't applied.
    Number,
    /// The reply is the previous value, and the write was applied.
    Before,
    /// The reply shows nothing: a script may write before it fails, and 0 may mean anything.
    Nothing,
}

impl Shows {
    fn of(text: &str) -> Self {
        let mut words = capitals(text);
        match words.next().as_deref() {
            Some("SETNX" | "HSETNX" | "MSETNX") => Self::Number,
            Some("GETSET") => Self::Before,
            Some("SET") if words.any(|word| word == "GET") => Self::Before,
            Some("EVAL" | "EVALSHA" | "FCALL") => Self::Nothing,
            _ => Self::Done,
        }
    }
}

/// The type of a command's reply, if it isn't an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyKind {
    /// Unknown: a script, a module's command, or a type that depends on options.
    Any,
    /// A status such as OK, or null if a condition isn't met.
    Status,
    Integer,
    /// A string of bytes, or null.
    Text,
    List,
}

impl ReplyKind {
    /// Source: the command reference of redis.io.
    fn of(text: &str) -> Self {
        let mut words = capitals(text);
        match words.next().as_deref().unwrap_or_default() {
            "SET" if words.any(|word| word == "GET") => Self::Text,
            "SET" | "SETEX" | "PSETEX" | "MSET" | "HMSET" | "LSET" | "LTRIM" => Self::Status,
            "SETNX" | "MSETNX" | "HSETNX" | "DEL" | "UNLINK" | "EXISTS" | "EXPIRE" | "PEXPIRE"
            | "PERSIST" | "TTL" | "PTTL" | "TOUCH" | "STRLEN" | "APPEND" | "INCR" | "INCRBY"
            | "DECR" | "DECRBY" | "SETRANGE" | "SETBIT" | "GETBIT" | "BITCOUNT" | "HSET"
            | "HDEL" | "HLEN" | "HEXISTS" | "HINCRBY" | "HSTRLEN" | "LPUSH" | "RPUSH"
            | "LPUSHX" | "RPUSHX" | "LLEN" | "LREM" | "SADD" | "SREM" | "SCARD" | "SISMEMBER"
            | "ZCARD" | "ZREM" | "ZCOUNT" | "PFADD" | "PFCOUNT" | "XLEN" | "XACK" | "PUBLISH" => {
                Self::Integer
            }
            "GET" | "GETDEL" | "GETEX" | "GETSET" | "GETRANGE" | "HGET" | "LINDEX" => Self::Text,
            "MGET" | "HMGET" | "HGETALL" | "HKEYS" | "HVALS" | "LRANGE" | "SMEMBERS" => Self::List,
            _ => Self::Any,
        }
    }

    /// Whether a reply has this type, is an error, or begins with attributes.
    #[inline]
    fn fits(self, reply: &[u8]) -> bool {
        match (self, reply) {
            (Self::Any, _) | (_, [b'-' | b'!' | b'|', ..]) => true,
            (Self::Status, [first, second, ..]) => {
                matches!((first, second), (b'+' | b'_', _) | (b'$' | b'*', b'-'))
            }
            (Self::Integer, [first, ..]) => *first == b':',
            (Self::Text, [first, second, ..]) => {
                matches!((first, second), (b'$' | b'_' | b'=', _) | (b'*', b'-'))
            }
            (Self::List, [first, ..]) => matches!(first, b'*' | b'%' | b'~' | b'_'),
            _ => false,
        }
    }
}

/// A compiled text of a statement.
#[derive(Debug)]
struct Command {
    /// The number of constant words, and of words per item.
    words: [usize; 2],
    /// Collections, with one word per element, and whether they are drawn per item.
    spread: Vec<(Slot, bool)>,
    segments: Vec<Segment>,
    shows: Shows,
    replies: ReplyKind,
}

/// A segment of a command.
#[derive(Debug)]
enum Segment {
    /// Encoded words with their headers.
    Literal(Literal),
    /// An argument: one word, or one per element of a collection.
    Argument(Slot),
    /// One word with several parts.
    Joined(Template),
    /// The next word is the key, which determines the server in a cluster.
    Key,
    /// Segments that are repeated for each item.
    Items(Vec<Segment>),
}

/// Constant bytes.
#[derive(Debug)]
struct Literal {
    bytes: Vec<u8>,
    /// The first bytes, which are copied as a block of fixed size.
    block: [u8; BLOCK],
}

/// Most literals are shorter.
const BLOCK: usize = 32;

impl Prepared {
    /// Compiles a statement.
    ///
    /// # Errors
    /// [`OpenError::Option`] naming the statement and the text that can't be sent.
    pub(crate) fn new(statement: &Statement) -> Result<Self, OpenError> {
        let mut commands = compile(statement, |text, groups, names| {
            Command::new(groups, names, Shows::of(text), ReplyKind::of(text))
        })?;
        let begins = |text: &String| capitals(text).next().as_deref() == Some("MULTI");
        let is_transaction = statement.texts.iter().any(begins);
        if is_transaction {
            // The reply to each command is QUEUED.
            commands.iter_mut().for_each(|command| command.replies = ReplyKind::Any);
        }
        if is_transaction && commands.iter().any(|command| command.shows != Shows::Done) {
            // One reply answers all of them.
            commands.iter_mut().for_each(|command| command.shows = Shows::Nothing);
        }
        Ok(Self {
            by_item: commands.iter().any(|command| command.words[1] > 0),
            is_transaction,
            commands,
        })
    }

    /// The number of commands per round.
    pub(crate) fn texts(&self) -> usize {
        self.commands.len()
    }

    /// Whether a reply has the type of the command of this text.
    #[inline]
    pub(crate) fn fits(&self, text: usize, reply: &[u8]) -> bool {
        self.commands[text].replies.fits(reply)
    }

    /// How the reply to this text shows the effect of the write.
    pub(crate) fn shows(&self, text: usize) -> Shows {
        self.commands[text].shows
    }

    /// The number of records of a command with this number of items.
    pub(crate) fn rows(&self, items: u32) -> u64 {
        if self.by_item { u64::from(items) } else { 1 }
    }

    /// The number of records of each command, if it is constant and a round has one command.
    pub(crate) fn rows_of_each(&self) -> Option<u64> {
        (self.texts() == 1 && !self.by_item).then_some(1)
    }

    /// Encodes a text for one round. Returns the index of its key's header in the output.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        output: &mut Vec<u8>,
        call: &Call<'_>,
        round: usize,
        text: usize,
    ) -> Option<usize> {
        let command = &self.commands[text];
        if command.is_counted() {
            put_command(output, command.count(call, round));
        }
        let mut key = None;
        for segment in &command.segments {
            match segment {
                Segment::Literal(literal) => literal.put(output),
                Segment::Argument(slot) => {
                    let (kind, bytes) = call.argument(*slot, round, 0);
                    put_argument(output, kind, bytes);
                }
                Segment::Key => key = key.or(Some(output.len())),
                Segment::Items(segments) => {
                    let items = call.commands.get(round).map_or(0, |(_, items)| *items);
                    for item in 0..items {
                        for segment in segments {
                            segment.put(output, call, round, item, &mut key);
                        }
                    }
                }
                Segment::Joined(_) => segment.put(output, call, round, 0, &mut key),
            }
        }
        key
    }

    /// Encodes all commands of an operation in order.
    pub(crate) fn put_all(&self, output: &mut Vec<u8>, call: &Call<'_>) {
        for round in 0..call.commands.len() {
            for text in 0..self.commands.len() {
                self.put(output, call, round, text);
            }
        }
    }
}

/// Encodes a command without arguments.
///
/// # Errors
/// [`OpenError::Option`] naming the text when it isn't one.
pub(crate) fn plain(text: &str) -> Result<Vec<u8>, OpenError> {
    let refuse = |why| {
        OpenError::Option(format!(
            "'{text}' can't be sent to prepare as a command of Redis: {why}; choose a workload \
             with commands of Redis, or for any system"
        ))
    };
    let groups = words(text).map_err(refuse)?;
    let command =
        Command::new(&groups, &Names::new(&[]), Shows::Done, ReplyKind::Any).map_err(refuse)?;
    if command.is_counted() {
        return Err(refuse("nothing is repeated there, so quote the brackets".to_owned()));
    }
    let mut output = Vec::new();
    for segment in &command.segments {
        if let Segment::Literal(literal) = segment {
            literal.put(&mut output);
        }
    }
    Ok(output)
}

impl Command {
    fn new(
        groups: &[Group],
        names: &Names<'_>,
        shows: Shows,
        replies: ReplyKind,
    ) -> Result<Self, String> {
        let key = key_of(groups, names);
        let (spread, segments) = (Vec::new(), Vec::new());
        let mut command = Self { words: [0, 0], spread, segments, shows, replies };
        let mut segments = Vec::new();
        let mut number = 0;
        for group in groups {
            let mut add = |word: &Word, per_item: bool, segments: &mut Vec<Segment>| {
                if key == Some(number) {
                    segments.push(Segment::Key);
                }
                number += 1;
                match compiled(word, per_item, names)? {
                    (Segment::Argument(slot), true) => {
                        command.spread.push((slot, per_item));
                        segments.push(Segment::Argument(slot));
                    }
                    (segment, _) => {
                        command.words[usize::from(per_item)] += 1;
                        push(segments, segment);
                    }
                }
                Ok::<_, String>(())
            };
            match group {
                Group::Once(word) => add(word, false, &mut segments)?,
                Group::PerItem(inner) => {
                    let mut each = Vec::new();
                    inner.iter().try_for_each(|word| add(word, true, &mut each))?;
                    segments.push(Segment::Items(each));
                }
            }
        }
        if !command.is_counted() {
            let mut header = Vec::new();
            put_command(&mut header, command.words[0]);
            command.segments.push(Segment::Literal(Literal::new(header)));
        }
        segments.into_iter().for_each(|segment| push(&mut command.segments, segment));
        Ok(command)
    }

    /// Whether the number of words varies.
    fn is_counted(&self) -> bool {
        self.words[1] > 0 || !self.spread.is_empty()
    }

    fn count(&self, call: &Call<'_>, round: usize) -> usize {
        let items = call.commands.get(round).map_or(0, |(_, items)| *items);
        let mut count = self.words[0] + self.words[1] * items as usize;
        for (slot, per_item) in &self.spread {
            for item in 0..if *per_item { items } else { 1 } {
                let (kind, bytes) = call.argument(*slot, round, item);
                count += leaves(kind, bytes);
            }
        }
        count
    }
}

impl Literal {
    fn new(bytes: Vec<u8>) -> Self {
        let block = std::array::from_fn(|n| bytes.get(n).copied().unwrap_or_default());
        Self { bytes, block }
    }

    #[inline]
    fn put(&self, output: &mut Vec<u8>) {
        if self.bytes.len() > BLOCK {
            return output.extend_from_slice(&self.bytes);
        }
        let end = output.len() + self.bytes.len();
        output.extend_from_slice(&self.block);
        output.truncate(end);
    }
}

impl Segment {
    fn put(
        &self,
        output: &mut Vec<u8>,
        call: &Call<'_>,
        round: usize,
        item: u32,
        key: &mut Option<usize>,
    ) {
        match self {
            Self::Literal(literal) => literal.put(output),
            Self::Argument(slot) => {
                let (kind, bytes) = call.argument(*slot, round, item);
                put_argument(output, kind, bytes);
            }
            Self::Joined(template) => {
                put_joined(output, |output| append(output, template, call, round, item));
            }
            Self::Key => *key = key.or(Some(output.len())),
            Self::Items(_) => {}
        }
    }
}

/// The number of the word which determines the server in a cluster: the first one with a key, or
/// else the first argument.
fn key_of(groups: &[Group], names: &Names<'_>) -> Option<usize> {
    let mut words: Vec<&Word> = Vec::new();
    for group in groups {
        match group {
            Group::Once(word) => words.push(word),
            Group::PerItem(inner) => words.extend(inner),
        }
    }
    let has_key = |word: &&Word| word.iter().any(|bit| names.is_key(bit));
    words.iter().position(has_key).or(if words.len() > 1 { Some(1) } else { None })
}

/// Compiles a word. Returns whether it is a collection.
fn compiled(word: &Word, per_item: bool, names: &Names<'_>) -> Result<(Segment, bool), String> {
    match word.as_slice() {
        [] | [WordPart::Literal(_)] => {
            let mut bytes = Vec::new();
            let text = word.iter().flat_map(|bit| match bit {
                WordPart::Literal(text) => text.as_slice(),
                WordPart::Argument(_) => &[],
            });
            put_part(&mut bytes, &text.copied().collect::<Vec<_>>());
            Ok((Segment::Literal(Literal::new(bytes)), false))
        }
        [WordPart::Argument(name)] => {
            let named = names.find_in_word(name, per_item)?;
            Ok((Segment::Argument(named.slot), named.is_collection()))
        }
        _ => Ok((Segment::Joined(names.compile(word, per_item)?), false)),
    }
}

/// Adds a segment and merges adjacent literals.
fn push(segments: &mut Vec<Segment>, segment: Segment) {
    match (segments.last_mut(), segment) {
        (Some(Segment::Literal(before)), Segment::Literal(literal)) => {
            let bytes = [&before.bytes[..], &literal.bytes].concat();
            *before = Literal::new(bytes);
        }
        (_, segment) => segments.push(segment),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kvmark_plan::{Argument, Each, Generator, SizeLaw, ValueType};
    use serde_json::json;

    use super::*;

    fn argument(name: &str, each: Each, generator: Generator) -> Argument {
        Argument { name: name.to_owned(), each, generator }
    }

    /// A statement with a key and a number for each command, and text and a list for each item.
    fn statement(texts: &[&str]) -> Statement {
        let length = SizeLaw::Constant { size: 1 };
        let of = Box::new(Generator::Boolean);
        Statement {
            name: "MINE".to_owned(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            commands: length.clone(),
            items: length.clone(),
            rows: None,
            record: Each::Command,
            checks: Vec::new(),
            when_full: None,
            arguments: vec![
                argument("key", Each::Command, Generator::Key),
                argument("n", Each::Command, Generator::Ordinal),
                argument("v", Each::Item, Generator::Text { length: length.clone() }),
                argument("list", Each::Item, Generator::List { of, length }),
            ],
            expects: Vec::new(),
            options: BTreeMap::new(),
        }
    }

    /// Two booleans, true and false.
    fn list() -> Vec<u8> {
        let mut bytes = 2_u64.to_le_bytes().to_vec();
        for value in [1, 0] {
            bytes.push(ValueType::Boolean as u8);
            bytes.extend(1_u64.to_le_bytes());
            bytes.push(value);
        }
        bytes
    }

    /// The bytes of one command: key `k`, number 42, and items with texts.
    fn encoded(text: &str, items: &[&str]) -> (String, Option<usize>) {
        let prepared = Prepared::new(&statement(&[text])).unwrap();
        let mut bytes = b"k".to_vec();
        bytes.extend(42_i64.to_le_bytes());
        let mut places = vec![(ValueType::Text, 0..1), (ValueType::Integer, 1..9)];
        for item in items {
            for (kind, value) in [(ValueType::Text, item.as_bytes()), (ValueType::List, &list())] {
                places.push((kind, bytes.len()..bytes.len() + value.len()));
                bytes.extend(value);
            }
        }
        let commands = [(0, items.len() as u32)];
        let (bytes, places, commands) = (&bytes[..], &places[..], &commands[..]);
        let call = Call { statement: 0, bytes, places, commands, widths: [0, 2, 2] };
        let mut output = Vec::new();
        let key = prepared.put(&mut output, &call, 0, 0);
        (String::from_utf8(output).unwrap(), key)
    }

    #[test]
    fn literals_and_arguments_become_the_parts_of_one_command() {
        let (bytes, key) = encoded("SET {key} {n} EX 60", &[]);
        let expected = "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n42\r\n$2\r\nEX\r\n$2\r\n60\r\n";
        assert_eq!(bytes, expected);
        assert!(bytes[key.unwrap()..].starts_with("$1\r\nk"));
        let (bytes, key) = encoded("GET \"a b\":{n}:{{{key}}}x", &[]);
        assert_eq!(bytes, "*2\r\n$3\r\nGET\r\n$11\r\na b:42:{k}x\r\n");
        assert!(bytes[key.unwrap()..].starts_with("$11"));
        assert_eq!(encoded("PING", &[]), ("*1\r\n$4\r\nPING\r\n".to_owned(), None));
    }

    #[test]
    fn words_in_brackets_repeat_per_item_and_collections_are_several_words() {
        let (bytes, _) = encoded("HMSET {key} [f {v}{n}]", &["x", "yy"]);
        let expected = "*6\r\n$5\r\nHMSET\r\n$1\r\nk\r\n\
                        $1\r\nf\r\n$3\r\nx42\r\n$1\r\nf\r\n$4\r\nyy42\r\n";
        assert_eq!(bytes, expected);
        let (bytes, _) = encoded("SADD {key} [{list}] end", &["x", "y"]);
        let both = "$1\r\n1\r\n$1\r\n0\r\n".repeat(2);
        assert_eq!(bytes, format!("*7\r\n$4\r\nSADD\r\n$1\r\nk\r\n{both}$3\r\nend\r\n"));
    }

    #[test]
    fn the_key_is_the_word_with_a_key_argument_or_else_the_first_argument() {
        let key = |text: &str, items: &[&str]| {
            let (bytes, key) = encoded(text, items);
            bytes[key.unwrap()..].split("\r\n").nth(1).unwrap().to_owned()
        };
        assert_eq!(key("EVAL \"return 1\" 1 {key} {n}", &[]), "k");
        assert_eq!(key("XREAD COUNT {n} STREAMS pre:{key} 0", &[]), "pre:k");
        assert_eq!(key("LPUSH here {n}", &[]), "here");
        assert_eq!(key("MSET [{v} {n}]", &["first", "second"]), "first");
        assert_eq!(key("MSET [{list} {key}]", &["x", "y"]), "k");
    }

    #[test]
    fn an_invalid_text_is_rejected_with_its_statement_and_the_reason() {
        let cases = [
            ("SET {key", "a brace isn't closed (write {{ for a brace)"),
            ("SET {other}", "there is no argument 'other' (there are key, n, v, list)"),
            ("SET {key} {v}", "'v' is drawn for each item, so put it in square brackets"),
            ("SADD [x{list}]", "'list' is a collection, which isn't part of a word"),
        ];
        for (text, why) in cases {
            let error = Prepared::new(&statement(&[text])).unwrap_err().to_string();
            assert_eq!(error, format!("statement 'MINE' can't be sent as '{text}': {why}"));
        }
        let mut optional = statement(&["PING"]);
        optional.options.insert("consistency".to_owned(), json!("ONE"));
        let error = Prepared::new(&optional).unwrap_err().to_string();
        assert_eq!(error, "statement 'MINE' has an option 'consistency', and there are none");
    }

    #[test]
    fn a_preparing_command_has_no_arguments() {
        assert_eq!(plain("FLUSHALL").unwrap(), b"*1\r\n$8\r\nFLUSHALL\r\n");
        let error = plain("SET {key} 1").unwrap_err().to_string();
        let expected = "'SET {key} 1' can't be sent to prepare as a command of Redis: there is no \
                        argument 'key'";
        assert!(error.starts_with(expected), "{error}");
        assert!(plain("MSET [a b]").unwrap_err().to_string().contains("quote the brackets"));
    }
}
