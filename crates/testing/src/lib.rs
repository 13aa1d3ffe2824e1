//! What tests of several crates share: plans, a count of allocations, and a driver's worker.

mod allocations;
mod forward;
pub mod plans;
mod worker;

pub use allocations::{CountingAllocator, allocations};
pub use forward::{Forward, Hooks};
pub use worker::{Shared, cells, execute, layout, request, run, session};
