//! Builders that keep the claims short.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use kvmark_driver::{
    Cell, Columns, Driver, Layout, OpenError, Reply, Request, Session, Time, Values,
};
use kvmark_driver_resp::{Resp, RespSession};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

/// Real time, served by the runtime.
struct RealTime(Instant);

impl Time for RealTime {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wake_at(&self, instant_ns: u64, context: &Context<'_>) {
        let left = Duration::from_nanos(instant_ns.saturating_sub(self.now_ns()));
        let waker = context.waker().clone();
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            waker.wake();
        });
    }
}

pub(crate) fn layout(fields: u32) -> Layout {
    let field_names = (0..fields).map(|n| format!("field{n}")).collect();
    Layout {
        table: "usertable".to_owned(),
        field_names,
        prepare: Vec::new(),
        statements: Vec::new(),
    }
}

pub(crate) fn open(address: &str, options: Value) -> Result<Resp, OpenError> {
    open_with(address, options, 3)
}

pub(crate) fn open_with(address: &str, options: Value, fields: u32) -> Result<Resp, OpenError> {
    open_layout(address, options, &layout(fields))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<Resp, OpenError> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("address".to_owned(), json!(address));
    Resp::open(&options, layout)
}

/// The sentence with which opening is refused.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    match open(address, options) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error.to_string(),
    }
}

/// Runs a future as a worker does.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) async fn session(driver: &Resp, clients: Range<u32>) -> RespSession {
    driver.session(clients, Rc::new(RealTime(Instant::now()))).await.unwrap()
}

/// Runs claims about the session of one client.
pub(crate) fn with_session<T>(driver: &Resp, claims: impl AsyncFnOnce(RespSession) -> T) -> T {
    run(async { claims(session(driver, 0..1).await).await })
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

/// Executes as this client and returns what came back, as `row.field=value`.
pub(crate) async fn execute(
    session: &RespSession,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Vec<String>) {
    let mut reply = Reply::default();
    reply.clear();
    let outcome = session.execute(client, request, &mut reply).await;
    let cell = |cell: &Cell| {
        let value = String::from_utf8_lossy(reply.bytes_of(cell));
        format!("{}.{}={value}", cell.row, cell.field)
    };
    (outcome, reply.cells.iter().map(cell).collect())
}

pub(crate) async fn read(session: &RespSession, client: u32, key: &str) -> (Outcome, Vec<String>) {
    execute(session, client, &request(Kind::Read, key)).await
}
