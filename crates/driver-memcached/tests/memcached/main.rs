//! Tests of the driver for memcached, with scripted servers and a real one. Tests with the real one
//! are ignored by default.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod common;
mod failures;
mod introduction;
mod memory;
mod real;
mod records;
mod scripted;
mod servers;
mod statements;
