//! The tape: operations in blocks of records of one size, for sequential writing and reading. A
//! Parquet file has its index at the end, so a killed writer leaves nothing readable. A tape is
//! complete up to its last block.
//!
//! A block is a head of 64 bytes, its records, and its heap, which holds kept keys and values. The
//! head has, in little endian: the eight bytes `KVTAPE01`, the number of records and the bytes of
//! the heap (32 bits each), `at_ns` of the first and the largest, and the records before (64 bits
//! each); the rest is 0. All records of an operation are in one block.

mod read;
mod record;
mod write;

pub use read::{Block, BlockHeader, TapeError, TapeReader};
pub use record::{RECORD_BYTES, Record};
pub use write::BlockWriter;

/// The start of each block: the format and its version.
const MAGIC: &[u8; 8] = b"KVTAPE01";
/// Most records of a block.
pub const RECORDS_MAX: usize = 1024;
/// Most bytes that a block keeps of keys and values.
pub const HEAP_MAX: usize = 64 << 20;
