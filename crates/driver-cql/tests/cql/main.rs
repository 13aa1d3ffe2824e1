//! The driver against scripted peers and, where `KVMARK_TEST_CQL` names one, a real node.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod common;
mod encrypted;
mod failures;
mod outages;
mod peer;
mod records;
mod statements;
mod wire;
