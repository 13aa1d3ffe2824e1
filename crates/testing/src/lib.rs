//! What tests of several crates share: plans, a count of allocations, and a driver's worker.

mod allocations;
mod arguments;
mod forward;
pub mod plans;
mod worker;

pub use allocations::{CountingAllocator, allocations};
pub use arguments::Arguments;
pub use forward::{Forward, Hooks};
pub use worker::{Shared, cells, execute, layout, request, run, session};
