//! Statements in the user's own words, compiled: literal bytes and the places of arguments.
//!
//! What doesn't change from operation to operation is encoded when the driver opens, the protocol's
//! headers included. To encode an operation is to copy those bytes and the arguments between them;
//! nothing is allocated.

use kvmark_driver::{Call, OpenError, Slot};
use kvmark_driver_server::names::Names;
use kvmark_driver_server::text::append_text;
use kvmark_driver_server::words::{Group, Word, WordPart, words};
use kvmark_plan::Statement;

use crate::argument::{leaves, put_argument};
use kvmark_wire::resp::{put_command, put_joined, put_part};

/// A statement, ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    commands: Vec<Command>,
    /// Whether a command of it is repeated within itself.
    by_item: bool,
    /// Whether its commands belong together, between MULTI and EXEC.
    transaction: bool,
}

/// A text's words, in capitals as commands are documented.
fn capitals(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_ascii_uppercase)
}

/// What the reply to a write shows, besides an error or a reply of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// A reply of nothing: the write wasn't done.
    Done,
    /// As [`Self::Done`], and 0: the write wasn't done.
    Number,
    /// What was there before: the write was done.
    Before,
    /// Nothing: a script may have written before it failed, and may mean anything by 0.
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

/// What the reply to a command is, if it is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyKind {
    /// Not known: a script, a module's command, or one that decides by its words.
    Any,
    /// A status such as OK; null where a condition didn't hold.
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

    /// Whether a reply that begins like this is of the kind, an error, or begins with attributes.
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

/// One of a statement's texts.
#[derive(Debug)]
struct Command {
    /// Words that are always there, and those of each item.
    words: [usize; 2],
    /// Arguments that are as many words as they have elements, and whether items have them.
    spread: Vec<(Slot, bool)>,
    pieces: Vec<Piece>,
    shows: Shows,
    replies: ReplyKind,
}

/// What a command is put together from.
#[derive(Debug)]
enum Piece {
    /// Encoded words, with their headers.
    Literal(Literal),
    /// A word, or the words of a collection.
    Argument(Slot),
    /// A word of several parts.
    Joined(Vec<Part>),
    /// The next word decides where a cluster sends the command.
    Key,
    /// What each item has.
    Items(Vec<Piece>),
}

/// Bytes that are always the same.
#[derive(Debug)]
struct Literal {
    bytes: Vec<u8>,
    /// The first of them: so many are copied at once, without asking how many there are.
    block: [u8; BLOCK],
}

/// What stands between two arguments is mostly shorter.
const BLOCK: usize = 32;

#[derive(Debug)]
enum Part {
    Literal(Vec<u8>),
    Argument(Slot),
}

impl Prepared {
    /// Compiles a statement.
    ///
    /// # Errors
    /// [`OpenError::Option`] naming the statement and the text that can't be sent.
    pub(crate) fn new(statement: &Statement) -> Result<Self, OpenError> {
        let Statement { name, texts, options, .. } = statement;
        if let Some(option) = options.keys().next() {
            let text = format!("statement '{name}' has an option '{option}', and there are none");
            return Err(OpenError::Option(text));
        }
        let refuse = |text: &str, why: String| {
            OpenError::Option(format!("statement '{name}' can't be sent as '{text}': {why}"))
        };
        let names = Names::new(statement);
        let command = |text: &String| {
            let groups = words(text).map_err(|why| refuse(text, why))?;
            let (shows, replies) = (Shows::of(text), ReplyKind::of(text));
            Command::new(&groups, &names, shows, replies).map_err(|why| refuse(text, why))
        };
        let mut commands: Vec<Command> = texts.iter().map(command).collect::<Result<_, _>>()?;
        let begins = |text: &String| capitals(text).next().as_deref() == Some("MULTI");
        let transaction = texts.iter().any(begins);
        if transaction {
            // Each is answered by QUEUED.
            commands.iter_mut().for_each(|command| command.replies = ReplyKind::Any);
        }
        if transaction && commands.iter().any(|command| command.shows != Shows::Done) {
            // All of them are answered by one.
            commands.iter_mut().for_each(|command| command.shows = Shows::Nothing);
        }
        Ok(Self {
            by_item: commands.iter().any(|command| command.words[1] > 0),
            transaction,
            commands,
        })
    }

    /// Commands that are sent each time over.
    pub(crate) fn texts(&self) -> usize {
        self.commands.len()
    }

    /// Whether a reply to the text of this number is of the kind that its command has.
    #[inline]
    pub(crate) fn fits(&self, text: usize, reply: &[u8]) -> bool {
        self.commands[text].replies.fits(reply)
    }

    /// Whether the commands sent each time over belong together, as in MULTI.
    pub(crate) fn is_transaction(&self) -> bool {
        self.transaction
    }

    /// What a reply to the text of this index shows of its write.
    pub(crate) fn shows(&self, text: usize) -> Shows {
        self.commands[text].shows
    }

    /// Records that a command of so many items concerns.
    pub(crate) fn rows(&self, items: u32) -> u64 {
        if self.by_item { u64::from(items) } else { 1 }
    }

    /// Records that each command concerns, where it is sent once each time over and always concerns
    /// as many.
    pub(crate) fn rows_of_each(&self) -> Option<u64> {
        (self.texts() == 1 && !self.by_item).then_some(1)
    }

    /// Encodes the text of this index for one time over; where its key's header begins in the
    /// output, if it has a key.
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
        for piece in &command.pieces {
            match piece {
                Piece::Literal(literal) => literal.put(output),
                Piece::Argument(slot) => {
                    let (kind, bytes) = call.argument(*slot, round, 0);
                    put_argument(output, kind, bytes);
                }
                Piece::Key => key = key.or(Some(output.len())),
                Piece::Items(pieces) => {
                    let items = call.commands.get(round).map_or(0, |(_, items)| *items);
                    for item in 0..items {
                        for piece in pieces {
                            piece.put(output, call, round, item, &mut key);
                        }
                    }
                }
                Piece::Joined(_) => piece.put(output, call, round, 0, &mut key),
            }
        }
        key
    }

    /// Encodes all of an operation's commands, in the order in which they are carried out.
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
    let refuse = |why| OpenError::Option(format!("'{text}' can't be sent to prepare: {why}"));
    let groups = words(text).map_err(refuse)?;
    let command =
        Command::new(&groups, &Names::none(), Shows::Done, ReplyKind::Any).map_err(refuse)?;
    if command.is_counted() {
        return Err(refuse("nothing is repeated there, so quote the brackets".to_owned()));
    }
    let mut output = Vec::new();
    for piece in &command.pieces {
        if let Piece::Literal(literal) = piece {
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
        let (spread, pieces) = (Vec::new(), Vec::new());
        let mut command = Self { words: [0, 0], spread, pieces, shows, replies };
        let mut pieces = Vec::new();
        let mut number = 0;
        for group in groups {
            let mut add = |word: &Word, per_item: bool, pieces: &mut Vec<Piece>| {
                if key == Some(number) {
                    pieces.push(Piece::Key);
                }
                number += 1;
                match compiled(word, per_item, names)? {
                    (Piece::Argument(slot), true) => {
                        command.spread.push((slot, per_item));
                        pieces.push(Piece::Argument(slot));
                    }
                    (piece, _) => {
                        command.words[usize::from(per_item)] += 1;
                        push(pieces, piece);
                    }
                }
                Ok::<_, String>(())
            };
            match group {
                Group::Once(word) => add(word, false, &mut pieces)?,
                Group::PerItem(inner) => {
                    let mut each = Vec::new();
                    inner.iter().try_for_each(|word| add(word, true, &mut each))?;
                    pieces.push(Piece::Items(each));
                }
            }
        }
        if !command.is_counted() {
            let mut header = Vec::new();
            put_command(&mut header, command.words[0]);
            command.pieces.push(Piece::Literal(Literal::new(header)));
        }
        pieces.into_iter().for_each(|piece| push(&mut command.pieces, piece));
        Ok(command)
    }

    /// Whether its words must be counted each time.
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

impl Piece {
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
            Self::Joined(parts) => put_joined(output, |output| {
                for part in parts {
                    match part {
                        Part::Literal(bytes) => output.extend_from_slice(bytes),
                        Part::Argument(slot) => {
                            let (kind, bytes) = call.argument(*slot, round, item);
                            append_text(output, kind, bytes);
                        }
                    }
                }
            }),
            Self::Key => *key = key.or(Some(output.len())),
            Self::Items(_) => {}
        }
    }
}

/// Number of the word that decides where a cluster sends the command: the first that holds a key,
/// else the first behind the command's name.
fn key_of(groups: &[Group], names: &Names<'_>) -> Option<usize> {
    let mut words: Vec<&Word> = Vec::new();
    for group in groups {
        match group {
            Group::Once(word) => words.push(word),
            Group::PerItem(inner) => words.extend(inner),
        }
    }
    let holds = |word: &&Word| word.iter().any(|bit| names.is_key(bit));
    words.iter().position(holds).or(if words.len() > 1 { Some(1) } else { None })
}

/// A word as a piece, and whether it is a collection.
fn compiled(word: &Word, per_item: bool, names: &Names<'_>) -> Result<(Piece, bool), String> {
    let find = |name: &str| names.find(name, per_item);
    match word.as_slice() {
        [] | [WordPart::Literal(_)] => {
            let mut bytes = Vec::new();
            let text = word.iter().flat_map(|bit| match bit {
                WordPart::Literal(text) => text.as_slice(),
                WordPart::Argument(_) => &[],
            });
            put_part(&mut bytes, &text.copied().collect::<Vec<_>>());
            Ok((Piece::Literal(Literal::new(bytes)), false))
        }
        [WordPart::Argument(name)] => {
            let named = find(name)?;
            Ok((Piece::Argument(named.slot), named.is_collection))
        }
        bits => {
            let part = |bit: &WordPart| match bit {
                WordPart::Literal(bytes) => Ok(Part::Literal(bytes.clone())),
                WordPart::Argument(name) => {
                    let named = find(name)?;
                    if named.is_collection {
                        return Err(format!("'{name}' holds several values, so put blanks around"));
                    }
                    Ok(Part::Argument(named.slot))
                }
            };
            Ok((Piece::Joined(bits.iter().map(part).collect::<Result<_, _>>()?), false))
        }
    }
}

/// Adds a piece; literals one after the other become one.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (Some(Piece::Literal(before)), Piece::Literal(literal)) => {
            let bytes = [&before.bytes[..], &literal.bytes].concat();
            *before = Literal::new(bytes);
        }
        (_, piece) => pieces.push(piece),
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
    fn words_in_brackets_are_repeated_for_each_item_and_collections_are_several_words() {
        let (bytes, _) = encoded("HMSET {key} [f {v}{n}]", &["x", "yy"]);
        let expected = "*6\r\n$5\r\nHMSET\r\n$1\r\nk\r\n\
                        $1\r\nf\r\n$3\r\nx42\r\n$1\r\nf\r\n$4\r\nyy42\r\n";
        assert_eq!(bytes, expected);
        let (bytes, _) = encoded("SADD {key} [{list}] end", &["x", "y"]);
        let both = "$1\r\n1\r\n$1\r\n0\r\n".repeat(2);
        assert_eq!(bytes, format!("*7\r\n$4\r\nSADD\r\n$1\r\nk\r\n{both}$3\r\nend\r\n"));
    }

    #[test]
    fn the_key_is_the_word_that_holds_it_or_else_the_first_behind_the_name() {
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
    fn a_text_that_cannot_be_sent_is_refused_in_a_sentence_with_its_statement() {
        let cases = [
            ("SET {key", "a brace isn't closed (write {{ for a brace)"),
            ("SET {other}", "there is no argument 'other' (there are key, n, v, list)"),
            ("SET {key} {v}", "'v' is drawn for each item, so put it in square brackets"),
            ("SADD [x{list}]", "'list' holds several values, so put blanks around"),
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
    fn what_prepares_a_server_has_no_arguments() {
        assert_eq!(plain("FLUSHALL").unwrap(), b"*1\r\n$8\r\nFLUSHALL\r\n");
        let error = plain("SET {key} 1").unwrap_err().to_string();
        let expected = "'SET {key} 1' can't be sent to prepare: there is no argument 'key'";
        assert!(error.starts_with(expected), "{error}");
        assert!(plain("MSET [a b]").unwrap_err().to_string().contains("quote the brackets"));
    }
}
