//! What a trace of operations needs beyond its columns: hashes in the place of keys; how soon keys
//! come back, in memory that doesn't grow with the trace; the tape, on which operations are
//! recorded and from which they are replayed; and what commands mean.

mod fenwick;
mod hash;
mod reuse;
pub mod tape;
pub mod verbs;

pub use hash::{HashKey, KeyHasher, LengthsError};
pub use reuse::{Bucket, Reuse, Reused};
