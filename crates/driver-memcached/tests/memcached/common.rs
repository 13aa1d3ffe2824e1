//! Helpers of the tests.

use kvmark_driver::{Layout, OpenError};
use kvmark_driver_memcached::Memcached;
use kvmark_testing::client;
use serde_json::Value;

pub(crate) use kvmark_testing::client::{
    execute_cells as execute, outcome, read, with_session, writing,
};
pub(crate) use kvmark_testing::{layout, request, run, session};

pub(crate) fn open(address: &str, options: Value) -> Result<Memcached, OpenError> {
    open_layout(address, options, &layout(3))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<Memcached, OpenError> {
    Memcached::open(&client::options_at(address, options), layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    client::refusal(open(address, options))
}
