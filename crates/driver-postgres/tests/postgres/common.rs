//! Helpers of the tests.

use kvmark_driver::{Console, Driver, Layout, OpenError};
use kvmark_driver_postgres::Postgres;
use kvmark_testing::client;
use serde_json::{Value, json};

pub(crate) use kvmark_testing::client::{
    execute_cells as execute, outcome, read, with_session, writing,
};
pub(crate) use kvmark_testing::{layout, request, run, session};

pub(crate) fn open(address: &str, options: Value) -> Result<Postgres, OpenError> {
    open_layout(address, options, &layout(3))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<Postgres, OpenError> {
    Postgres::open(&client::options_at(address, options), layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    client::refusal(open(address, options))
}

/// The rows of a query.
pub(crate) fn ask(address: &str, query: &str) -> Result<Value, OpenError> {
    let options = client::options_at(address, json!({}));
    let mut console = Postgres::console(&options).unwrap().unwrap();
    Console::ask(&mut *console, &[query.to_owned()])
}
