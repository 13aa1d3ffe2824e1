//! Compiled statements, such as `SET {key} {value} EX 60`.
//!
//! Commands are case-insensitive, with the word order of the protocol. The driver adds the length
//! of a value, and flags and time to live unless given (`FLAGS 5`, `EX 60`). Keys are used as
//! written; the dataset's records have keys `TABLE-KEY`. Keys of a get in square brackets are
//! repeated for each item. Encoding a command copies prepared bytes, keys and the value.

use std::ops::Range;

use kvmark_driver::options::nearest;
use kvmark_driver::{Call, OpenError, Slot};
use kvmark_driver_server::template::{Names, Piece, Template, append, compile};
use kvmark_driver_server::text::{Texts, integer};
use kvmark_driver_server::words::{Group, Word, WordPart};
use kvmark_plan::{Outcome, Statement, ValueType};
use kvmark_wire::number;

use crate::failure::Failure;
use crate::keys::{check, is_word};

/// The type of a command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Items.
    Items,
    /// Whether the command was executed.
    Word,
    /// A number, or a miss.
    Number,
    /// The reply to a meta command.
    Meta,
}

/// The arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Keys.
    Get,
    /// A time to live, and keys.
    GetAndTouch,
    /// A key, a value, `EX` and `FLAGS`.
    Store,
    /// A key and a value.
    Extend,
    /// A key.
    Key,
    /// A key and a number.
    Number(Shape),
    /// A key and flags.
    Meta,
    /// A key, a value and flags.
    MetaStore,
}

const COMMANDS: [(&str, Form); 17] = [
    ("GET", Form::Get),
    ("GETS", Form::Get),
    ("GAT", Form::GetAndTouch),
    ("GATS", Form::GetAndTouch),
    ("SET", Form::Store),
    ("ADD", Form::Store),
    ("REPLACE", Form::Store),
    ("APPEND", Form::Extend),
    ("PREPEND", Form::Extend),
    ("DELETE", Form::Key),
    ("INCR", Form::Number(Shape::Number)),
    ("DECR", Form::Number(Shape::Number)),
    ("TOUCH", Form::Number(Shape::Word)),
    ("MG", Form::Meta),
    ("MD", Form::Meta),
    ("MA", Form::Meta),
    ("MS", Form::MetaStore),
];

/// A statement, ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) name: String,
    commands: Vec<Command>,
}

/// A compiled text of a statement.
#[derive(Debug)]
struct Command {
    name: &'static str,
    shape: Shape,
    /// Up to the first key.
    head: Template,
    keys: Vec<KeyWords>,
    /// From the last key to the line's end, or to the length of the value.
    tail: Template,
    block: Option<Block>,
    /// Arguments that must be integers.
    numbers: Vec<Slot>,
}

/// Keys, and whether they are repeated for each item.
#[derive(Debug)]
struct KeyWords {
    texts: Vec<Template>,
    per_item: bool,
}

/// A value, and the text between its length and the end of the line.
#[derive(Debug)]
struct Block {
    value: Template,
    after: Vec<u8>,
}

/// The position of a command within an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandId {
    pub(crate) round: u32,
    pub(crate) text: u32,
}

impl Prepared {
    /// Compiles a statement.
    ///
    /// # Errors
    /// [`OpenError::Option`] naming the statement and the text that can't be sent.
    pub(crate) fn new(statement: &Statement) -> Result<Self, OpenError> {
        let commands = compile(statement, |_, groups, names| Command::new(groups, names))?;
        Ok(Self { name: statement.name.clone(), commands })
    }

    /// The number of commands per round.
    pub(crate) fn texts(&self) -> u32 {
        self.commands.len() as u32
    }

    /// Whether it uses commands that older servers lack.
    pub(crate) fn is_meta(&self) -> bool {
        self.commands.iter().any(|command| command.shape == Shape::Meta)
    }

    pub(crate) fn shape(&self, id: CommandId) -> Shape {
        self.commands[id.text as usize].shape
    }

    /// Adds the keys of a command. Returns their indices.
    pub(crate) fn add_keys(
        &self,
        call: &Call<'_>,
        id: CommandId,
        keys: &mut Texts,
    ) -> Result<Range<u32>, Failure> {
        let command = &self.commands[id.text as usize];
        let round = id.round as usize;
        let mut numbers = command.numbers.iter();
        numbers.try_for_each(|slot| command.check(call.argument(*slot, round, 0)))?;
        let first = keys.count();
        for group in &command.keys {
            let times = if group.per_item { call.commands[round].1 } else { 1 };
            for item in 0..times {
                for text in &group.texts {
                    check(keys.add(|output| append(output, text, call, round, item)))?;
                }
            }
        }
        if first == keys.count() {
            let text = format!("{} has no keys: draw at least one item", command.name);
            return Err(Failure::new(Outcome::Refused, text));
        }
        Ok(first..keys.count())
    }

    /// Encodes a command with these keys.
    #[inline]
    pub(crate) fn put<'a>(
        &self,
        output: &mut Vec<u8>,
        call: &Call<'_>,
        id: CommandId,
        keys: impl Iterator<Item = &'a [u8]>,
    ) {
        let command = &self.commands[id.text as usize];
        let round = id.round as usize;
        append(output, &command.head, call, round, 0);
        for key in keys {
            output.push(b' ');
            output.extend_from_slice(key);
        }
        append(output, &command.tail, call, round, 0);
        match &command.block {
            None => output.extend_from_slice(b"\r\n"),
            Some(block) => block.put(output, call, round),
        }
    }
}

impl Block {
    /// Encodes length, line end and value.
    #[inline]
    fn put(&self, output: &mut Vec<u8>, call: &Call<'_>, round: usize) {
        let head = |output: &mut Vec<u8>, length: usize| {
            output.push(b' ');
            number::append(output, length as i64);
            output.extend_from_slice(&self.after);
            output.extend_from_slice(b"\r\n");
        };
        let known = match self.value.as_slice() {
            [] => Some(&[][..]),
            [Piece::Literal(bytes)] => Some(&bytes[..]),
            [Piece::Argument(slot)] => match call.argument(*slot, round, 0) {
                (ValueType::Text | ValueType::Bytes, bytes) => Some(bytes),
                _ => None,
            },
            _ => None,
        };
        if let Some(bytes) = known {
            head(output, bytes.len());
            output.extend_from_slice(bytes);
        } else {
            // The length is known only after the value, which is then moved.
            let start = output.len();
            append(output, &self.value, call, round, 0);
            let end = output.len();
            head(output, end - start);
            output[start..].rotate_left(end - start);
        }
        output.extend_from_slice(b"\r\n");
    }
}

/// The remaining words in a command.
struct Rest<'a> {
    name: &'static str,
    words: std::vec::IntoIter<&'a Word>,
    names: &'a Names<'a>,
}

impl<'a> Rest<'a> {
    fn next(&mut self, what: &str) -> Result<&'a Word, String> {
        self.words.next().ok_or_else(|| format!("{} needs {what}", self.name))
    }

    fn text(&mut self, what: &str) -> Result<Template, String> {
        self.names.compile(self.next(what)?, false)
    }

    /// Reads a number: a literal or an argument.
    fn number(&mut self, what: &str, tail: &mut Template) -> Result<Option<Slot>, String> {
        tail.push(Piece::Literal(b" ".to_vec()));
        match self.next(what)?.as_slice() {
            [WordPart::Literal(digits)] if is_number(digits) => {
                tail.push(Piece::Literal(digits.clone()));
                Ok(None)
            }
            [WordPart::Argument(name)] => {
                let slot = self.names.find_in_word(name, false)?.slot;
                tail.push(Piece::Argument(slot));
                Ok(Some(slot))
            }
            _ => Err(format!("{} needs {what}, a whole number", self.name)),
        }
    }

    /// Reads the flags of a meta command, each with a blank before it.
    fn flags(&mut self) -> Result<Vec<u8>, String> {
        let mut flags = Vec::new();
        for word in self.words.by_ref() {
            match word.as_slice() {
                [WordPart::Literal(flag)] if flag.starts_with(b"q") => {
                    return Err("flag q suppresses the reply: leave it out".to_owned());
                }
                [WordPart::Literal(flag)] if is_word(flag) => {
                    flags.push(b' ');
                    flags.extend_from_slice(flag);
                }
                _ => return Err("a flag must be a separate literal word".to_owned()),
            }
        }
        Ok(flags)
    }
}

impl Command {
    fn new(groups: &[Group], names: &Names<'_>) -> Result<Self, String> {
        let first = if let Some(Group::Once(word)) = groups.first() { &word[..] } else { &[] };
        let [WordPart::Literal(name)] = first else {
            return Err("it doesn't begin with a command's name".to_owned());
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let known = COMMANDS.iter().find(|(known, _)| *known == name);
        let (name, form) = known.copied().ok_or_else(|| unknown(&name))?;
        let mut command = Self {
            name,
            shape: Shape::Word,
            head: vec![Piece::Literal(name.to_ascii_lowercase().into_bytes())],
            keys: Vec::new(),
            tail: Vec::new(),
            block: None,
            numbers: Vec::new(),
        };
        command.fill(form, &groups[1..], names)?;
        Ok(command)
    }

    fn fill(&mut self, form: Form, groups: &[Group], names: &Names<'_>) -> Result<(), String> {
        if matches!(form, Form::Get | Form::GetAndTouch) {
            return self.fill_get(form, groups, names);
        }
        let words = groups.iter().map(|group| match group {
            Group::Once(word) => Ok(word),
            Group::PerItem(_) => Err(format!("{} has one key: leave the brackets out", self.name)),
        });
        let words: Vec<&Word> = words.collect::<Result<_, _>>()?;
        let mut rest = Rest { name: self.name, words: words.into_iter(), names };
        self.keys.push(KeyWords { texts: vec![rest.text("a key")?], per_item: false });
        match form {
            Form::Store => self.fill_store(&mut rest)?,
            Form::Extend => {
                let value = rest.text("a key and a value")?;
                self.tail.push(Piece::Literal(b" 0 0".to_vec()));
                self.block = Some(Block { value, after: Vec::new() });
            }
            Form::Number(shape) => {
                self.shape = shape;
                self.numbers.extend(rest.number("a key and a number", &mut self.tail)?);
            }
            Form::Meta => {
                self.shape = Shape::Meta;
                self.tail.push(Piece::Literal(rest.flags()?));
            }
            Form::MetaStore => {
                self.shape = Shape::Meta;
                let value = rest.text("a key and a value")?;
                self.block = Some(Block { value, after: rest.flags()? });
            }
            Form::Key | Form::Get | Form::GetAndTouch => {}
        }
        if rest.words.next().is_some() {
            return Err(format!("{} has too many arguments", self.name));
        }
        Ok(())
    }

    fn fill_get(&mut self, form: Form, groups: &[Group], names: &Names<'_>) -> Result<(), String> {
        self.shape = Shape::Items;
        let mut groups = groups;
        if form == Form::GetAndTouch {
            let words =
                if let Some(Group::Once(word)) = groups.first() { vec![word] } else { vec![] };
            let mut rest = Rest { name: self.name, words: words.into_iter(), names };
            self.numbers.extend(rest.number("a time to live and keys", &mut self.head)?);
            groups = &groups[1..];
        }
        for group in groups {
            let (words, per_item) = match group {
                Group::Once(word) => (std::slice::from_ref(word), false),
                Group::PerItem(words) => (&words[..], true),
            };
            let texts = words.iter().map(|word| names.compile(word, per_item));
            self.keys.push(KeyWords { texts: texts.collect::<Result<_, _>>()?, per_item });
        }
        if self.keys.is_empty() { Err(format!("{} needs a key", self.name)) } else { Ok(()) }
    }

    fn fill_store(&mut self, rest: &mut Rest<'_>) -> Result<(), String> {
        let value = rest.text("a key and a value")?;
        let (mut flags, mut expires) = (None, None);
        while let Some(word) = rest.words.next() {
            let option = match word.as_slice() {
                [WordPart::Literal(option)] => String::from_utf8_lossy(option).to_ascii_uppercase(),
                _ => "an argument".to_owned(),
            };
            let mut number = Template::new();
            match option.as_str() {
                "EX" if expires.is_none() => {
                    self.numbers.extend(rest.number("seconds behind EX", &mut number)?);
                    expires = Some(number);
                }
                // If the server rejects the flags, it can't find the end of the value.
                "FLAGS" if flags.is_none() => match rest.number("flags", &mut number)? {
                    None => flags = Some(number),
                    Some(_) => return Err("FLAGS is a number without arguments".to_owned()),
                },
                _ => return Err(format!("'{option}' isn't EX or FLAGS, each of which is once")),
            }
        }
        let zero = || vec![Piece::Literal(b" 0".to_vec())];
        self.tail.extend(flags.unwrap_or_else(zero));
        self.tail.extend(expires.unwrap_or_else(zero));
        self.block = Some(Block { value, after: Vec::new() });
        Ok(())
    }

    /// Rejects an argument that isn't a valid number. The server would read the value as commands.
    fn check(&self, (kind, bytes): (ValueType, &[u8])) -> Result<(), Failure> {
        let fits = matches!(kind, ValueType::Integer | ValueType::Timestamp)
            && (self.shape == Shape::Number || i32::try_from(integer(bytes)).is_ok());
        if fits {
            return Ok(());
        }
        let text = format!("an argument of {} isn't a valid integer", self.name);
        Err(Failure::new(Outcome::Refused, text))
    }
}

/// Whether a literal is a valid number, with room for a sign.
fn is_number(digits: &[u8]) -> bool {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    let most = if unsigned.len() == digits.len() { 10 } else { 9 };
    (1..=most).contains(&unsigned.len())
        && unsigned.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(digits).is_ok_and(|text| text.parse::<i32>().is_ok())
}

fn unknown(name: &str) -> String {
    let names = COMMANDS.map(|(name, _)| name);
    match nearest(name, names.into_iter()) {
        Some(near) => format!("there is no command {name}; did you mean {near}?"),
        None => format!("there is no command {name}; known are {}", names.join(", ")),
    }
}

/// Encodes a preparing line.
///
/// # Errors
/// [`OpenError::Option`] if the text can't be sent.
pub(crate) fn plain(text: &str) -> Result<Vec<u8>, OpenError> {
    let text = text.trim();
    let name = text.split(' ').next().unwrap_or_default();
    let known = COMMANDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let why = if text.is_empty() || text.chars().any(char::is_control) {
        "it isn't one line"
    } else if known
        .is_some_and(|(_, form)| matches!(form, Form::Store | Form::Extend | Form::MetaStore))
        || name.eq_ignore_ascii_case("cas")
    {
        "a command with a value is allowed only in a statement"
    } else {
        return Ok(format!("{text}\r\n").into_bytes());
    };
    Err(OpenError::Option(format!("'{text}' can't be sent to prepare: {why}")))
}
