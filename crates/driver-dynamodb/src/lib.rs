//! The driver for the API of DynamoDB: AWS, ScyllaDB's Alternator, DynamoDB local, dynalite.
//!
//! Requests are JSON over HTTP/1.1, each signed (see `signature.rs`). Records have the layout of
//! YCSB's binding (see `records.rs`). A missing table is created.
//!
//! Operations go to the servers of the address in turn. Each client has a connection to each
//! server, or the clients of a worker share a few with pipelined requests. A request on a closed
//! connection waits for the current attempt to reopen it and fails with it. A request is never sent
//! twice.

mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod http;
mod operation;
mod options;
mod records;
mod signature;

use kvmark_driver_server::ServerDriver;

pub use control::DynamoDbStore;

/// A connected server with the API of DynamoDB.
pub type DynamoDb = ServerDriver<DynamoDbStore>;
