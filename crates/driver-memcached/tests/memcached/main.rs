//! What the driver for memcached promises, against scripted servers and a real one. What needs the
//! real one is ignored unless it is asked for.

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
