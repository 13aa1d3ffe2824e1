//! Builders that keep the claims short.

use std::collections::BTreeMap;

use kvmark_driver::{Call, Layout, OpenError, Reply, Request};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Argument, Each, Generator, Kind, Outcome, SizeLaw, Statement, ValueType};
use kvmark_testing::cells;
use serde_json::{Value, json};

pub(crate) use kvmark_testing::{layout, request, run};

pub(crate) fn open(address: &str, options: Value, layout: &Layout) -> Result<Cql, OpenError> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("address".to_owned(), json!(address));
    Cql::open(&options, layout)
}

/// The sentence with which opening is refused.
pub(crate) fn refusal(address: &str, options: Value, layout: &Layout) -> String {
    match open(address, options, layout) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error.to_string(),
    }
}

pub(crate) async fn session(driver: &Cql) -> CqlSession {
    kvmark_testing::session(driver, 0..8).await
}

/// An operation's outcome and its cells as `row.field=value`.
pub(crate) async fn execute(
    session: &CqlSession,
    request: &Request<'_>,
) -> (Outcome, Vec<String>, Reply) {
    let (outcome, reply) = kvmark_testing::execute(session, 0, request).await;
    (outcome, cells(&reply), reply)
}

/// Where the real node is, in this keyspace.
pub(crate) fn node(keyspace: &str) -> String {
    let address = std::env::var("KVMARK_TEST_CQL").expect("KVMARK_TEST_CQL must name a node");
    format!("{address}/{keyspace}")
}

/// A statement whose arguments are drawn per command.
pub(crate) fn statement(
    texts: &[&str],
    arguments: &[(&str, Generator)],
    options: Value,
) -> Statement {
    let once = || SizeLaw::Constant { size: 1 };
    let argument = |(name, generator): &(&str, Generator)| Argument {
        name: (*name).to_owned(),
        each: Each::Command,
        generator: generator.clone(),
    };
    Statement {
        name: "own".to_owned(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        commands: once(),
        items: once(),
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments: arguments.iter().map(argument).collect(),
        expects: Vec::new(),
        options: serde_json::from_value(options).unwrap(),
    }
}

/// The arguments of commands, drawn.
#[derive(Default)]
pub(crate) struct Drawn {
    bytes: Vec<u8>,
    places: Vec<(ValueType, std::ops::Range<usize>)>,
    commands: Vec<(u32, u32)>,
    width: u32,
}

impl Drawn {
    /// One more command.
    pub(crate) fn command(mut self, arguments: &[(ValueType, Vec<u8>)]) -> Self {
        self.commands.push((self.places.len() as u32, 0));
        self.width = arguments.len() as u32;
        for (kind, bytes) in arguments {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            self.places.push((*kind, start..self.bytes.len()));
        }
        self
    }

    pub(crate) async fn execute(
        &self,
        session: &CqlSession,
        statement: u32,
        kind: Kind,
    ) -> (Outcome, Vec<String>, Reply) {
        let call = Call {
            statement,
            bytes: &self.bytes,
            places: &self.places,
            commands: &self.commands,
            widths: [0, self.width, 0],
        };
        execute(session, &Request { statement: Some(call), ..request(kind, "") }).await
    }
}

pub(crate) fn text(text: &str) -> (ValueType, Vec<u8>) {
    (ValueType::Text, text.as_bytes().to_vec())
}

pub(crate) fn whole(number: i64) -> (ValueType, Vec<u8>) {
    (ValueType::Integer, number.to_le_bytes().to_vec())
}

/// A collection's bytes.
pub(crate) fn several(kind: ValueType, of: &[(ValueType, Vec<u8>)]) -> (ValueType, Vec<u8>) {
    let mut bytes = (of.len() as u64).to_le_bytes().to_vec();
    for (kind, value) in of {
        bytes.push(*kind as u8);
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    (kind, bytes)
}
