//! Arrival processes: when each operation of an open model is due.
//!
//! [`Arrivals`] yields a group's intended starts in one phase, in order, forever. They follow from
//! the arrival process and a seed alone: nothing here knows what time it is, so nothing is skipped
//! when the engine is late. Arrival i happens where the integral of the rate reaches u(i): u(i) = i
//! for a constant process, the sum of i + 1 draws from the exponential law for a Poisson process
//! (time change of a unit process: D. J. Daley and D. Vere-Jones, "An Introduction to the Theory of
//! Point Processes", 7.4).

mod arrivals;
mod chance;
mod due;
mod even;
mod part;
mod poisson;
mod ramped;
mod rates;
mod turns;

pub use arrivals::Arrivals;
pub use chance::seed_of;
pub use due::Due;
pub use part::Part;
