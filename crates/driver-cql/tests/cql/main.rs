//! Tests of the driver with scripted peers, and with a real node at `KVMARK_TEST_CQL`. Tests with
//! the node are ignored by default; `python3 scripts/with_cassandra.py` starts one.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod common;
mod encrypted;
mod failures;
mod outages;
mod peer;
mod polls;
mod real;
mod records;
mod replies;
mod statements;
mod topology;
mod wire;
