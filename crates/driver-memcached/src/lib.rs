//! memcached, and what speaks its text protocol.
//!
//! A record is one value in the format of YCSB's memcached binding (see `records.rs` for the format
//! and for updates). Scans aren't supported. Statements are commands of memcached (see
//! `statements.rs`). The driver uses commands that every server supports; statements may also use
//! the meta commands of version 1.6.
//!
//! Keys are distributed over the servers of the address (see `keys.rs`). A get with keys on several
//! servers sends one command to each. The keys of a failed server aren't redistributed: operations
//! on them fail until the server returns.
//!
//! Each client has a connection to each server, or the clients of a worker share a few with
//! pipelined requests. A request on a closed connection waits for the current attempt to reopen it
//! and fails with it. A request is never sent twice.

mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod json;
mod keys;
mod operation;
mod options;
mod records;
mod statements;

use kvmark_driver_server::ServerDriver;

pub use control::MemcachedStore;

/// Connected servers with memcached's text protocol.
pub type Memcached = ServerDriver<MemcachedStore>;
