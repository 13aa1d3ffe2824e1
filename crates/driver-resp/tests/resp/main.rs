//! What the driver for the Redis protocol promises, against scripted servers and a real one.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod bound;
mod cluster;
mod common;
mod failures;
mod introduction;
mod pipelining;
mod real;
mod real_cluster;
mod records;
mod scripted;
mod statements;
