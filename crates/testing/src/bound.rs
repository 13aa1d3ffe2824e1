//! Statements with manually bound arguments.

use std::collections::BTreeMap;
use std::ops::Range;

use kvmark_driver::{Call, Layout, Request};
use kvmark_plan::{Argument, Each, Generator, Kind, SizeLaw, Statement, ValueType};

use crate::worker::{layout, request};

const ONE: SizeLaw = SizeLaw::Constant { size: 1 };

/// A statement with text arguments: per command `key`, a record's key, `value` and `list`; per item
/// `item`.
pub fn statement(texts: &[&str]) -> Statement {
    let text = || Generator::Text { length: ONE };
    let argument =
        |name: &str, each, generator| Argument { name: name.to_owned(), each, generator };
    Statement {
        name: texts.concat(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        commands: ONE,
        items: ONE,
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments: vec![
            argument("key", Each::Command, Generator::Key),
            argument("value", Each::Command, text()),
            argument("list", Each::Command, Generator::List { of: text().into(), length: ONE }),
            argument("item", Each::Item, text()),
        ],
        expects: Vec::new(),
        options: BTreeMap::new(),
    }
}

/// A layout with these statements; `;` separates the texts of a statement.
pub fn layout_of(statements: &[&str]) -> Layout {
    let split = |text: &&str| statement(&text.split(';').map(str::trim).collect::<Vec<_>>());
    Layout { statements: statements.iter().map(split).collect(), ..layout(1) }
}

/// The arguments of one operation.
#[derive(Debug, Default)]
pub struct Bound {
    statement: u32,
    bytes: Vec<u8>,
    places: Vec<(ValueType, Range<usize>)>,
    commands: Vec<(u32, u32)>,
}

impl Bound {
    /// No arguments yet, for the statement of this index.
    pub fn new(statement: u32) -> Self {
        Self { statement, ..Self::default() }
    }

    /// Adds a command with this key, value and items; the list has the same items.
    pub fn command(mut self, key: &str, value: &str, items: &[&str]) -> Self {
        self.commands.push((self.places.len() as u32, items.len() as u32));
        self.push(ValueType::Text, key.as_bytes());
        self.push(ValueType::Text, value.as_bytes());
        let mut list = (items.len() as u64).to_le_bytes().to_vec();
        for item in items {
            list.push(ValueType::Text as u8);
            list.extend((item.len() as u64).to_le_bytes());
            list.extend(item.as_bytes());
        }
        self.push(ValueType::List, &list);
        items.iter().for_each(|item| self.push(ValueType::Text, item.as_bytes()));
        self
    }

    fn push(&mut self, kind: ValueType, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend(bytes);
        self.places.push((kind, start..self.bytes.len()));
    }

    /// A request for it.
    pub fn request(&self, kind: Kind) -> Request<'_> {
        let call = Call {
            statement: self.statement,
            bytes: &self.bytes,
            places: &self.places,
            commands: &self.commands,
            widths: [0, 3, 1],
        };
        Request { statement: Some(call), ..request(kind, "") }
    }
}
