//! Parts of a trace of operations beyond its columns: hashes of keys; reuse distances in bounded
//! memory; the tape, which records operations and replays them; the log of a run; and the meaning
//! of commands.

mod fenwick;
mod hash;
mod log;
mod reuse;
pub mod tape;
pub mod verbs;

pub use hash::{HashKey, KeyHasher, LengthsError};
pub use log::{LOG_BYTES, LOG_MAGIC, LogRecord};
pub use reuse::{Bucket, Reuse, Reused};
