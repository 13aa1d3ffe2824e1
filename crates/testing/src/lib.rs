//! Code shared by tests and examples: plans, bound statements, an allocation counter, a worker and
//! a bare epoll loop.

mod allocations;
mod arguments;
pub mod bare;
mod bound;
mod carry;
pub mod embedded;
pub mod plans;
mod worker;

pub use allocations::{CountingAllocator, allocations, ends_allocating};
pub use arguments::Arguments;
pub use bare::{Uniform, cpu_ns};
pub use bound::{Bound, layout_of, statement};
pub use carry::carry_out;
pub use worker::{Shared, assert_compares, cells, execute, layout, request, run, session};
