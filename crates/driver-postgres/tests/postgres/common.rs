//! Helpers of the tests.

use std::collections::BTreeMap;

use kvmark_driver::{Console, Driver, Layout, OpenError, Request, Values};
use kvmark_driver_postgres::Postgres;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Shared, cells};
use serde_json::{Value, json};

pub(crate) use kvmark_testing::{layout, request, run, session};

fn all(address: &str, options: Value) -> BTreeMap<String, Value> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("address".to_owned(), json!(address));
    options
}

pub(crate) fn open(address: &str, options: Value) -> Result<Postgres, OpenError> {
    open_layout(address, options, &layout(3))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<Postgres, OpenError> {
    Postgres::open(&all(address, options), layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    refusal_of(address, options, &layout(3))
}

pub(crate) fn refusal_of(address: &str, options: Value, layout: &Layout) -> String {
    match open_layout(address, options, layout) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error.to_string(),
    }
}

/// The rows of a query.
pub(crate) fn ask(address: &str, query: &str) -> Result<Value, OpenError> {
    let mut console = Postgres::console(&all(address, json!({}))).unwrap().unwrap();
    Console::ask(&mut *console, &[query.to_owned()])
}

/// Runs a test with a session of one client.
pub(crate) fn with_session<T>(
    driver: &Postgres,
    claims: impl AsyncFnOnce(Shared<Postgres>) -> T,
) -> T {
    run(claims(session(driver, 1)))
}

/// Executes a request and returns the values as `row.field=value`.
pub(crate) async fn execute(
    session: &Shared<Postgres>,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Vec<String>) {
    let (outcome, reply) = kvmark_testing::execute(session, client, request).await;
    (outcome, cells(&reply))
}

pub(crate) async fn outcome(session: &Shared<Postgres>, request: &Request<'_>) -> Outcome {
    execute(session, 0, request).await.0
}

pub(crate) async fn read(session: &Shared<Postgres>, key: &str) -> (Outcome, Vec<String>) {
    execute(session, 0, &request(Kind::Read, key)).await
}

pub(crate) fn writing<'a>(kind: Kind, key: &'a str, values: Values<'a>) -> Request<'a> {
    Request { values, ..request(kind, key) }
}
