//! The load generator: carries out a plan against a driver, owns the clock, hands records to the
//! writer.
//!
//! One coordinator (the calling thread) leads the workers through the phases. A worker is one
//! thread with its own session and recorder. A driver whose calls block gets one worker per client
//! ([`blocking`]); otherwise a worker serves many clients turn by turn ([`turn`]). Either way a
//! client takes its next operation and its intended start from the [`source`], waits until it is
//! due, and is stamped when the operation is issued and when it is completed. Nothing is skipped
//! when late. The engine names no system.

mod blocking;
mod calibrate;
mod clock;
mod conduct;
mod coordinator;
mod crew;
mod error;
mod executed;
mod lag;
mod ledger;
mod loaded;
mod log;
mod numbering;
mod observer;
mod operation;
mod order;
mod owed;
mod phase;
mod probe;
mod pulse;
mod queue;
mod run;
mod sleep;
mod source;
mod starting;
mod tape;
mod taped;
mod turn;
mod usage;
mod verify_scan;
mod worker;
mod write_history;

pub use calibrate::{Calibration, calibrate};
pub use crew::MAX_BLOCKING_CLIENTS;

pub use error::EngineError;
pub use log::Recording;
pub use observer::{Control, Leave, Observer, Progress, Unobserved};
pub use run::{Completed, run, run_recorded};
