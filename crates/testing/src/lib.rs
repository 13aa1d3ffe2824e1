//! Code shared by tests and examples: plans, bound statements, an allocation counter, a worker,
//! scripted servers, a bare epoll loop, and the suites that all drivers pass.

mod allocations;
mod arguments;
pub mod bare;
mod bound;
mod carry;
mod claims;
pub mod client;
pub mod embedded;
mod peer;
pub mod plans;
mod seeds;
pub mod server;
mod worker;

pub use allocations::{CountingAllocator, allocations, ends_allocating};
pub use arguments::Arguments;
pub use bare::{Uniform, cpu_ns};
pub use bound::{Bound, layout_of, statement};
pub use carry::carry_out;
pub use peer::{Peer, Scripted, ServerSide};
pub use seeds::{check_seeds, seeds};
pub use worker::{Shared, assert_compares, cells, execute, layout, request, run, session};
