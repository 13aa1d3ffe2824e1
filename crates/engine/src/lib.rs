//! The load generator: carries out a plan against a driver, owns the clock, hands records to the
//! writer.
//!
//! One coordinator (the calling thread) leads the workers through the phases. A worker is one
//! thread with its own session and recorder. A driver whose calls block gets one worker per client;
//! otherwise many clients share a worker as tasks. Both run the same client loop ([`client`]): take
//! the next operation and its intended start from the [`source`], wait until it is due, stamp,
//! execute, stamp, record. Nothing is skipped when late. The engine names no system.

mod apart;
mod calibrate;
mod client;
mod clock;
mod conduct;
mod coordinator;
mod error;
mod executor;
mod idle;
mod ledger;
mod observer;
mod operation;
mod phase;
mod remembered;
mod source;
mod sweep;
mod timers;
mod usage;
mod wait;
mod worker;

pub use calibrate::{Calibration, calibrate};
pub use coordinator::{Completed, run};
pub use error::EngineError;
pub use observer::{Control, Leave, Observer, Progress, Unobserved};

/// Most clients a blocking driver may have, each being a thread.
pub const MAX_BLOCKING_CLIENTS: u32 = 1024;
