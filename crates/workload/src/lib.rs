//! (seed, number) to operation, and arrival processes.
//!
//! A [`Stream`] is the population of operations of one group in one phase. Operation n has a kind,
//! an ordinal, a scan length, a field and values on any worker and in any order: each is a pure
//! function of a seed and n. Only an insert's ordinal and the frontier of complete inserts depend
//! on the run. An [`InsertSequence`] has both. With a given frontier a draw is pure again, so a
//! recorded frontier reproduces it.
//!
//! If the plan requests YCSB's keys, values and distributions, they match YCSB
//! (`site.ycsb.workloads.CoreWorkload`). The other distributions are exact where YCSB approximates.
//! Nothing here reads a clock, allocates per operation, or depends on a system.

mod arguments;
mod arrivals;
mod checks;
mod checksum;
mod compressible;
mod decimal;
mod distribution;
mod error;
mod generator;
mod inserts;
mod integrity;
mod key;
mod lines;
mod mix;
mod partition;
mod ranges;
mod records;
mod size;
mod statement;
mod stream;
mod value;

pub use arguments::{ArgumentBuffer, TapedContent};
pub use arrivals::{Arrivals, Due, seed_of};
pub use error::WorkloadError;
pub use inserts::{CachePadded, InsertSequence};
pub use partition::NumberPartition;
pub use records::{RecordRef, Records, sized, tag};
pub use statement::StatementTemplate;
pub use stream::{Draw, Stream};
pub use value::ValueBuffer;
