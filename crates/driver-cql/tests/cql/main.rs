//! The driver against scripted peers, and a real node that `KVMARK_TEST_CQL` names. What needs the
//! node is ignored unless it is asked for: `python3 scripts/with_cassandra.py` starts one.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod common;
mod encrypted;
mod failures;
mod outages;
mod peer;
mod records;
mod replies;
mod statements;
mod turns;
mod wire;
