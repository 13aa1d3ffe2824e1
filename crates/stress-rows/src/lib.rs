//! Rows exactly as cassandra-stress generates them, so that each tool can check the other's rows.
//!
//! A partition's number seeds its key, the key seeds the values below it, and each column adds its
//! own salt. The building blocks are Java's random numbers ([`java`]), a faster generator for bytes
//! ([`noise`]), and the laws that use them ([`law`]).

mod column;
mod java;
mod law;
mod noise;
mod partition;
mod partition_counts;
mod salt;

pub use law::{Law, drawn};
pub use partition::{Partition, Table};
pub use partition_counts::PartitionCounts;
