//! Tests of the driver for the Redis protocol, with scripted servers and a real one. Tests with the
//! real one are ignored by default.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod arrivals;
mod cluster;
mod common;
mod failures;
mod introduction;
mod memory;
mod pipelining;
mod polls;
mod real;
mod real_cluster;
mod records;
mod scripted;
mod statements;
mod worker;
