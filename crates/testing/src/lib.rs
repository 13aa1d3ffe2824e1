//! What tests of several crates share: a count of allocations, and a driver's worker.

mod allocations;
mod worker;

pub use allocations::{CountingAllocator, allocations};
pub use worker::{cells, execute, layout, request, run, session};
