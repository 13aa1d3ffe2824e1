//! Systems that speak the Redis protocol: Redis, Valkey, YugabyteDB's Redis API.
//!
//! The record layout equals that of YCSB's Redis binding (see `commands.rs`), so each tool can read
//! the data of the other. Keys don't contain the table's name. Each client has a connection, or the
//! clients of a worker share a few with pipelined requests.
//!
//! A request on a closed connection waits for the current attempt to reopen it and fails with it. A
//! request is sent once, unless a server of a cluster redirects it without executing it.
//!
//! Statements are commands such as `SET {key} {value} EX 60` (see `words.rs` of `driver-server` for
//! the grammar and `answers.rs` for the replies). All commands of an operation are one pipeline.
//!
//! The option `cluster` enables Redis Cluster (see `cluster.rs`). The key of a command is the first
//! word with a record's key, or else its first argument. Servers reject commands with keys in
//! several slots, and the driver rejects such transactions. In YCSB's layout `_indices` is a single
//! key, so one server has the index of all records. The statistic `node_share_max` shows this.

mod answers;
mod argument;
mod cluster;
mod cluster_batch;
mod commands;
mod console;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod operation;
mod options;
mod prepared;
mod slots;

use kvmark_driver_server::ServerDriver;

pub use control::RespStore;

/// A connected server or cluster with the Redis protocol.
pub type Resp = ServerDriver<RespStore>;
