//! Opening a driver, and requests of its clients, in few words.

use std::collections::BTreeMap;
use std::ops::Range;

use kvmark_driver::{AnySession, Driver, Layout, OpenError, Reply, Request, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::Value;

use crate::{
    Bound, Shared, carry_out, cells, ends_allocating, execute, layout_of, request, run, session,
};

/// How a driver is opened.
pub type Open<D> = fn(&BTreeMap<String, Value>, &Layout) -> Result<D, OpenError>;

/// A statement that is executed once: its kind and text, its commands as key, value and items, its
/// outcome, and its values as `row.field=value`.
pub type Step<'a> =
    (Kind, &'a str, &'a [(&'a str, &'a str, &'a [&'a str])], Outcome, &'a [&'a str]);

/// The options with this address.
///
/// # Panics
/// If the options aren't an object.
pub fn options_at(address: &str, options: Value) -> BTreeMap<String, Value> {
    let mut options: BTreeMap<_, _> =
        serde_json::from_value(options).expect("options are an object");
    options.insert("address".to_owned(), address.into());
    options
}

/// The error of a failed opening.
///
/// # Panics
/// If the opening succeeded.
pub fn refusal<D>(opened: Result<D, OpenError>) -> String {
    opened.err().expect("the opening should be refused").to_string()
}

/// Runs a test with a session of one client.
pub fn with_session<D: Driver, T>(driver: &D, claims: impl AsyncFnOnce(Shared<D>) -> T) -> T {
    run(claims(session(driver, 1)))
}

/// Executes a request and returns the values as `row.field=value`.
pub async fn execute_cells<D: Driver>(
    session: &Shared<D>,
    client: u32,
    request: &Request<'_>,
) -> (Outcome, Vec<String>) {
    let (outcome, reply) = execute(session, client, request).await;
    (outcome, cells(&reply))
}

/// The outcome of a request of the first client.
pub async fn outcome<D: Driver>(session: &Shared<D>, request: &Request<'_>) -> Outcome {
    execute(session, 0, request).await.0
}

/// Reads a record.
pub async fn read<D: Driver>(
    session: &Shared<D>,
    client: u32,
    key: &str,
) -> (Outcome, Vec<String>) {
    execute_cells(session, client, &request(Kind::Read, key)).await
}

/// A request with values.
pub fn writing<'a>(kind: Kind, key: &'a str, values: Values<'a>) -> Request<'a> {
    Request { values, ..request(kind, key) }
}

/// Executes a request of the first client.
pub fn ask<D: Driver>(client: &Shared<D>, request: &Request<'_>) -> (Outcome, Reply) {
    run(execute(client, 0, request))
}

/// Writes fields of a record.
pub fn write<D: Driver>(
    client: &Shared<D>,
    kind: Kind,
    key: &str,
    values: &[(u32, &[u8])],
) -> Outcome {
    let (mut bytes, mut places) = (Vec::new(), Vec::<(u32, Range<usize>)>::new());
    for (field, value) in values {
        places.push((*field, bytes.len()..bytes.len() + value.len()));
        bytes.extend_from_slice(value);
    }
    ask(client, &writing(kind, key, Values { bytes: &bytes, places: &places })).0
}

/// The outcome of a read and its values as `row.field=value`, sorted.
pub fn values_of<D: Driver>(client: &Shared<D>, request: &Request<'_>) -> (Outcome, Vec<String>) {
    let (outcome, reply) = ask(client, request);
    let mut values = cells(&reply);
    values.sort();
    (outcome, values)
}

/// Executes statements in order and compares their results.
///
/// # Panics
/// If a result differs.
pub fn assert_steps<D: Driver>(open: impl FnOnce(&Layout) -> D, steps: &[Step<'_>]) {
    let texts: Vec<_> = steps.iter().map(|step| step.1).collect();
    let driver = open(&layout_of(&texts));
    let client = session(&driver, 1);
    for (index, (kind, text, commands, outcome, values)) in (0..).zip(steps) {
        let add = |bound: Bound, one: &(&str, &str, &[&str])| bound.command(one.0, one.1, one.2);
        let bound = commands.iter().fold(Bound::new(index), add);
        let found = run(execute_cells(&client, 0, &bound.request(*kind)));
        assert_eq!(found.0, *outcome, "{text} {:?}", client.last_failure());
        assert_eq!(found.1, *values, "{text}");
    }
}

/// Executes each request by four clients at once, and checks that it allocates nothing in steady
/// state.
///
/// # Panics
/// If it does.
pub fn assert_no_allocations<D: Driver>(driver: &D, requests: &[Request<'_>]) {
    let opened = driver.session(4).unwrap_or_else(|error| panic!("{error}"));
    let AnySession::Asynchronous(mut session) = opened else { panic!("its sessions wait") };
    for request in requests {
        let all = [*request; 4];
        assert!(ends_allocating(|| carry_out(&mut session, &all)), "{request:?}");
    }
}
