//! Code shared by tests and examples: plans, bound statements, an allocation counter, a worker and
//! a bare epoll loop.

mod allocations;
mod arguments;
pub mod bare;
mod bound;
mod carry;
mod chance;
mod forward;
pub mod plans;
mod processor;
mod worker;

pub use allocations::{CountingAllocator, allocations, ends_allocating};
pub use arguments::Arguments;
pub use bound::{Bound, layout_of, statement};
pub use carry::carry_out;
pub use chance::Uniform;
pub use forward::{Forward, Hooks};
pub use processor::cpu_ns;
pub use worker::{Shared, assert_compares, cells, execute, layout, request, run, session};
