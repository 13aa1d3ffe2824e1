//! Builders that keep the claims short.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use kvmark_driver::{Call, Columns, Driver, Layout, OpenError, Reply, Request, Session};
use kvmark_driver::{Time, Values};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Argument, Each, Generator, Kind, Outcome, SizeLaw, Statement, ValueType};
use serde_json::{Value, json};

/// The time of a worker, kept by its runtime.
struct Clock(Instant);

impl Time for Clock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wake_at(&self, instant_ns: u64, context: &Context<'_>) {
        let (instant, waker) = (self.0 + Duration::from_nanos(instant_ns), context.waker().clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(instant.into()).await;
            waker.wake();
        });
    }
}

pub(crate) fn layout(fields: u32) -> Layout {
    Layout {
        table: "usertable".to_owned(),
        field_names: (0..fields).map(|n| format!("field{n}")).collect(),
        prepare: Vec::new(),
        statements: Vec::new(),
    }
}

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

/// Runs a future as a worker does.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) async fn session(driver: &Cql) -> CqlSession {
    driver.session(0..8, Rc::new(Clock(Instant::now()))).await.unwrap()
}

pub(crate) fn request(kind: Kind, key: &str) -> Request<'_> {
    Request {
        number: 0,
        kind,
        key: key.as_bytes(),
        columns: Columns::All,
        values: Values::NONE,
        scan_length: 10,
        wants_values: true,
        statement: None,
    }
}

/// An operation's outcome and its cells as `row.field=value`.
pub(crate) async fn execute(
    session: &CqlSession,
    request: &Request<'_>,
) -> (Outcome, Vec<String>, Reply) {
    let mut reply = Reply::default();
    reply.clear();
    let outcome = session.execute(0, request, &mut reply).await;
    let cell = |cell: &kvmark_driver::Cell| {
        let value = String::from_utf8_lossy(reply.bytes_of(cell)).into_owned();
        format!("{}.{}={value}", cell.row, cell.field)
    };
    let cells = reply.cells.iter().map(cell).collect();
    (outcome, cells, reply)
}

/// Where the real node is, or a printed reason why the test is skipped.
pub(crate) fn node(keyspace: &str) -> Option<String> {
    match std::env::var("KVMARK_TEST_CQL") {
        Ok(address) => Some(format!("{address}/{keyspace}")),
        Err(_) => {
            println!("skipped: KVMARK_TEST_CQL names no node");
            None
        }
    }
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
