//! What a trace of operations needs beyond its columns: hashes in the place of keys; how soon keys
//! come back, in memory that doesn't grow with the trace; the tape, on which operations are
//! recorded and from which they are replayed; the log of a run; and what commands mean.

mod fenwick;
mod hash;
mod log;
mod reuse;
pub mod tape;
pub mod verbs;

pub use hash::{HashKey, KeyHasher, LengthsError};
pub use log::{LOG_BYTES, LOG_MAGIC, LogRecord};
pub use reuse::{Bucket, Reuse, Reused};
