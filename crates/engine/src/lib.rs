//! The load generator: executes a plan against a driver, owns the clock, and passes records to the
//! writer.
//!
//! One coordinator (the calling thread) leads the workers through the phases. A worker is one
//! thread with its own session and recorder. A driver whose calls block gets one worker per client
//! ([`blocking`]). Otherwise an event loop on each worker serves many clients ([`client_loop`]). A
//! client takes its next operation and the intended start from the [`source`] and waits until the
//! operation is due. The engine stamps issue and completion. A late operation is never skipped. The
//! engine names no system.

mod attempts;
mod blocking;
mod calibrate;
mod claims;
mod client_loop;
mod clock;
mod coordinator;
mod due_counter;
mod error;
mod first_record;
mod lag;
mod loaded;
mod monitor;
mod observer;
mod op_log;
mod operation;
mod pool;
mod probe;
mod pulse;
mod queue;
mod run;
mod scheduled;
mod sequence;
mod sleep;
mod source;
mod tape;
mod usage;
mod verify_scan;
mod worker;
mod worker_recorder;
mod write_history;

pub use calibrate::calibrate;
pub use pool::MAX_BLOCKING_CLIENTS;

pub use error::EngineError;
pub use observer::{Control, Leave, Observer, Progress, Unobserved, interruptible};
pub use op_log::Recording;
pub use run::{Completed, run, run_in_real_time};
