//! A worker as far as an asynchronous driver sees one.

use std::ops::Range;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use kvmark_driver::{Columns, Driver, Layout, Reply, Request, Session, Time, Values};
use kvmark_plan::{Kind, Outcome};

/// Real time, served by the runtime.
struct RealTime(Instant);

impl Time for RealTime {
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

/// Runs a future as a worker does.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime needs nothing but descriptors").block_on(future)
}

/// The worker's session for these clients.
pub async fn session<D: Driver>(driver: &D, clients: Range<u32>) -> D::Session {
    let session = driver.session(clients, Rc::new(RealTime(Instant::now()))).await;
    session.unwrap_or_else(|error| panic!("{error}"))
}

/// A table with fields `field0` and so on.
#[must_use]
pub fn layout(fields: u32) -> Layout {
    Layout {
        table: "usertable".to_owned(),
        field_names: (0..fields).map(|n| format!("field{n}")).collect(),
        prepare: Vec::new(),
        statements: Vec::new(),
    }
}

/// A request for all fields of a record, or of ten from it on.
#[must_use]
pub fn request(kind: Kind, key: &str) -> Request<'_> {
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

/// Executes a request with a fresh reply.
pub async fn execute(
    session: &impl Session,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Reply) {
    let mut reply = Reply::default();
    reply.clear();
    let outcome = session.execute(client, request, &mut reply).await;
    (outcome, reply)
}

/// The cells of a reply as `row.field=value`.
#[must_use]
pub fn cells(reply: &Reply) -> Vec<String> {
    let cell = |cell: &kvmark_driver::Cell| {
        let value = String::from_utf8_lossy(reply.bytes_of(cell));
        format!("{}.{}={value}", cell.row, cell.field)
    };
    reply.cells.iter().map(cell).collect()
}
