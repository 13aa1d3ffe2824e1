//! Rows exactly as cassandra-stress makes them, so that either program can check the other's.
//!
//! A partition's number seeds its key, the key seeds the values under it, and each column adds a
//! salt of its own. The building blocks are Java's random numbers ([`java`]), a faster generator
//! for bytes ([`noise`]), and laws drawn with them ([`law`]).

mod column;
mod java;
mod law;
mod noise;
mod partition;
mod salt;
mod turns;

pub(crate) use law::Law;
pub use law::drawn;
pub(crate) use partition::{Partition, Table};
pub(crate) use turns::Turns;
