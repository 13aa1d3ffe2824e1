//! The behaviour of the driver for embedded RocksDB, on databases in temporary folders.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod common;
mod opening;
mod operations;
mod options;
mod statistics;
mod writers;
