//! Helpers of the tests.

use std::future::poll_fn;
use std::sync::mpsc::Receiver;
use std::task::Poll;

use kvmark_driver::{Layout, OpenError};
use kvmark_driver_resp::Resp;
use kvmark_testing::client;
use serde_json::Value;

pub(crate) use kvmark_testing::client::{
    execute_cells as execute, outcome, read, with_session, writing,
};
pub(crate) use kvmark_testing::{layout, request, run, session};

pub(crate) fn open(address: &str, options: Value) -> Result<Resp, OpenError> {
    open_layout(address, options, &layout(3))
}

pub(crate) fn open_layout(
    address: &str,
    options: Value,
    layout: &Layout,
) -> Result<Resp, OpenError> {
    Resp::open(&client::options_at(address, options), layout)
}

/// The error of a failed opening.
pub(crate) fn refusal(address: &str, options: Value) -> String {
    client::refusal(open(address, options))
}

/// Waits for a signal of a server.
pub(crate) async fn heard(signal: &Receiver<()>) {
    poll_fn(|_| signal.try_recv().map_or(Poll::Pending, Poll::Ready)).await;
}
