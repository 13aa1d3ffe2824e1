//! Helpers of the tests.

use std::sync::LazyLock;
use std::time::Instant;

use kvmark_driver::{
    AnySession, Call, Completions, Driver, Layout, OpenError, Reply, Request, Ticket,
};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Argument, Each, Generator, Kind, Outcome, SizeLaw, Statement, ValueType};
use kvmark_testing::{Shared, cells, client};
use serde_json::Value;

pub(crate) use kvmark_testing::{layout, request, run};

/// A worker of eight clients.
pub(crate) type Session = Shared<Cql>;

pub(crate) fn open(address: &str, options: Value, layout: &Layout) -> Result<Cql, OpenError> {
    Cql::open(&client::options_at(address, options), layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value, layout: &Layout) -> String {
    client::refusal(open(address, options, layout))
}

pub(crate) fn session(driver: &Cql) -> Session {
    kvmark_testing::session(driver, 8)
}

/// A worker's session that the test polls.
pub(crate) fn own_session(driver: &Cql, clients: u32) -> CqlSession {
    let AnySession::Asynchronous(session) = driver.session(clients).unwrap();
    session
}

/// The results of polls. Each stamp advances the clock by one.
#[derive(Default)]
pub(crate) struct Told {
    clock: u64,
    pub(crate) issued: Vec<Ticket>,
    /// The outcomes and failure texts.
    pub(crate) ended: Vec<(Ticket, Outcome, String)>,
    /// The read values as `ticket=value`, by ticket.
    pub(crate) values: Vec<String>,
}

impl Told {
    /// The clock follows that of the machine.
    pub(crate) fn pass_real_time(&mut self) {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        self.clock = self.clock.max(BEGAN.elapsed().as_nanos() as u64);
    }
}

impl Completions for Told {
    fn stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn issued(&mut self, ticket: Ticket, _: u64) {
        self.issued.push(ticket);
    }

    fn completed(&mut self, ticket: Ticket, _: u64, outcome: Outcome, reply: &Reply) {
        self.ended.push((ticket, outcome, String::new()));
        for cell in &reply.cells {
            let value = String::from_utf8_lossy(reply.bytes_of(cell));
            self.values.push(format!("{ticket}={value}"));
        }
        self.values.sort();
    }

    fn failed(&mut self, ticket: Ticket, _: u64, outcome: Outcome, why: &str, _: &Reply) {
        self.ended.push((ticket, outcome, why.to_owned()));
    }
}

/// The first client's operation: its outcome and its cells as `row.field=value`.
pub(crate) async fn execute(
    session: &Session,
    request: &Request<'_>,
) -> (Outcome, Vec<String>, Reply) {
    execute_as(session, 0, request).await
}

/// The same for another client.
pub(crate) async fn execute_as(
    session: &Session,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Vec<String>, Reply) {
    let (outcome, reply) = kvmark_testing::execute(session, client, request).await;
    (outcome, cells(&reply), reply)
}

/// The address of the real node with this keyspace.
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

/// The drawn arguments of commands.
#[derive(Default)]
pub(crate) struct Drawn {
    bytes: Vec<u8>,
    places: Vec<(ValueType, std::ops::Range<usize>)>,
    commands: Vec<(u32, u32)>,
    width: u32,
}

impl Drawn {
    /// Adds a command.
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
        session: &Session,
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
