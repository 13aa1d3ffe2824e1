//! MongoDB, and what serves its wire protocol.
//!
//! A record is a document of YCSB's binding (see `records.rs`). An operation is one command in one
//! message (`OP_MSG`); a scan whose documents don't fit into a reply has several.
//!
//! The address names one server, the primary. Each client has a connection, or the clients of a
//! worker share a few with pipelined requests. A request on a closed connection waits for the
//! current attempt to reopen it and fails with it. A request is never sent twice.

mod bson;
mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod message;
mod operation;
mod options;
mod records;

use kvmark_driver_server::ServerDriver;

pub use control::MongoDbStore;

/// A connected server with MongoDB's protocol.
pub type MongoDb = ServerDriver<MongoDbStore>;
