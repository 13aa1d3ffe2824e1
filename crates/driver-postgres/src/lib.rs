//! PostgreSQL, and what speaks version 3 of its protocol.
//!
//! A record is a row in the table of YCSB's JDBC binding (see `records.rs`). Statements are SQL,
//! with `{name}` for an argument. Each connection prepares all texts when it opens. An operation is
//! one transaction for each of its texts, executed by `Bind`, `Execute` and `Sync` in one write; so
//! several are in flight on a connection, and an error fails only its own.
//!
//! Each client has a connection, or the clients of a worker share a few with pipelined requests. A
//! request on a closed connection waits for the current attempt to reopen it and fails with it. A
//! request is never sent twice.

mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod message;
mod operation;
mod options;
mod prepare;
mod records;
mod text;

use kvmark_driver_server::ServerDriver;

pub use control::PostgresStore;

/// A connected server with PostgreSQL's protocol.
pub type Postgres = ServerDriver<PostgresStore>;
