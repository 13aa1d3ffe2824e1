//! What a trace of operations needs beyond its columns: hashes in the place of keys, and how soon
//! keys come back, in memory that doesn't grow with the trace.

mod fenwick;
mod hash;
mod reuse;

pub use hash::{HashKey, LengthsError};
pub use reuse::{Bucket, Reuse, Reused};
