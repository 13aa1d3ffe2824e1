//! Tests of the driver for PostgreSQL. Most need a real server and are ignored by default.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod common;
mod failures;
mod introduction;
mod memory;
mod real;
mod records;
mod statements;
