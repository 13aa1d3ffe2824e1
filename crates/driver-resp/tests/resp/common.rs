//! Helpers of the tests.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::mpsc::Receiver;
use std::task::Poll;

use kvmark_driver::{Layout, OpenError, Request};
use kvmark_driver_resp::Resp;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Shared, cells};
use serde_json::{Value, json};

pub(crate) use kvmark_testing::{layout, request, run, session};

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

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    match open(address, options) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error.to_string(),
    }
}

/// Runs a test with a session of one client.
pub(crate) fn with_session<T>(driver: &Resp, claims: impl AsyncFnOnce(Shared<Resp>) -> T) -> T {
    run(claims(session(driver, 1)))
}

/// Executes a request and returns the values as `row.field=value`.
pub(crate) async fn execute(
    session: &Shared<Resp>,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Vec<String>) {
    let (outcome, reply) = kvmark_testing::execute(session, client, request).await;
    (outcome, cells(&reply))
}

pub(crate) async fn read(session: &Shared<Resp>, client: u32, key: &str) -> (Outcome, Vec<String>) {
    execute(session, client, &request(Kind::Read, key)).await
}

/// Waits for a signal of a server.
pub(crate) async fn heard(signal: &Receiver<()>) {
    poll_fn(|_| signal.try_recv().map_or(Poll::Pending, Poll::Ready)).await;
}
