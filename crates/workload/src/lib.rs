//! (seed, number) to operation.
//!
//! A [`Stream`] is the population of operations of one group in one phase: number n of it has a
//! kind, an ordinal, a scan length, a field and values, whoever draws it, in whatever order. Each
//! is a pure function of its own seed and n. Two things are known only while a run goes, and an
//! [`InsertSequence`] holds both: the ordinal an insert gets, and how far inserts have ended. Given
//! how far they had, a draw is pure again, so that a recorded frontier reproduces it.
//!
//! Keys, values and the laws of choice are YCSB's where the plan asks for YCSB's
//! (`site.ycsb.workloads.CoreWorkload`), and exact where YCSB's are approximations. Nothing here
//! reads a clock, allocates per operation, or knows a system.

mod apart;
mod arguments;
mod cassandra_stress;
mod checks;
mod decimal;
mod distribution;
mod error;
mod generator;
mod inserts;
mod integrity;
mod kept;
mod key;
mod made;
mod mix;
mod random;
mod ranges;
mod records;
mod size;
mod statement;
mod stream;
mod value;

pub use apart::Apart;
pub use arguments::ArgumentBuffer;
pub use cassandra_stress::drawn;
pub use error::WorkloadError;
pub use inserts::InsertSequence;
pub use kept::Kept;
pub use records::{Owner, sized, tag};
pub use stream::{Draw, Stream};
pub use value::ValueBuffer;
