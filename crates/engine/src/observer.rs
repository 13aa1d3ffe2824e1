//! The interface for the progress and the control of a run.

use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kvmark_plan::PhaseName;
use serde::Serialize;

use crate::coordinator::LOOK_UP;
use crate::error::EngineError;

/// The observer's request to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Continue,
    /// End the phase now, complete outstanding operations, and keep the measurement.
    Stop,
    /// Return at once.
    Abandon,
}

/// Whether a phase may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Not yet.
    Wait,
    /// At once.
    Now,
    /// At this instant of wall time since the Unix epoch, or at once if it has passed. Engines on
    /// several machines use it to begin together. On the virtual clock it means at once.
    At {
        /// The instant.
        wall_ns: u64,
    },
}

/// The state of a run, for a display. Rates are per second, times in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// The phase's index in the plan.
    pub phase: u32,
    /// Its name.
    pub phase_name: &'static str,
    /// Time since it began.
    pub elapsed_ns: u64,
    /// Its length, where it is bounded by time.
    pub expected_ns: Option<u64>,
    /// Operations completed in it, with any outcome.
    pub completed: u64,
    /// Its operations, where they are bounded.
    pub expected_operations: Option<u64>,
    /// Completed rate since the last progress.
    pub rate_per_s: f64,
    /// p99 of response time in the newest closed interval.
    pub response_ns_p99: Option<u64>,
    /// Failed operations so far in the phase.
    pub failed: u64,
    /// Misses so far in the phase.
    pub missed: u64,
    /// Arrivals due and not issued at the end of the newest closed interval; `None` in the closed
    /// model.
    pub backlog: Option<u64>,
    /// How long outstanding requests have had no answer; `None` without outstanding requests.
    pub silent_ns: Option<u64>,
}

/// Watches a run from the coordinator's thread, never from a worker's.
pub trait Observer {
    /// Called about once per interval.
    fn progress(&mut self, progress: &Progress);
    /// Called at least every 200 ms.
    fn poll(&mut self) -> Control;
    /// The newest phase of the plan, by index, that an observer of all machines has ended. All
    /// earlier phases end with it.
    fn ended_phase(&self) -> Option<u32> {
        None
    }
    /// Whether a planned fault is active, so that the system may be silent; called as often as
    /// [`Self::poll`].
    fn is_disturbed(&mut self) -> bool {
        false
    }
    /// Whether a phase may begin. Called at least every 50 ms until it may begin and the instant is
    /// near, after the engine has probed for existing records.
    fn may_begin(&mut self, _phase: PhaseName) -> Leave {
        Leave::Now
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&mut self, _progress: &Progress) {}

    fn poll(&mut self) -> Control {
        Control::Continue
    }
}

/// Makes a call that may wait for the system, on a separate thread so that the user can interrupt.
///
/// # Errors
/// [`EngineError::Interrupted`] after an interrupt; the call continues.
pub fn interruptible<T: Send + 'static>(
    observer: &mut dyn Observer,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    let thread = thread::Builder::new().name("kvmark-open".to_owned()).spawn(call);
    let thread = thread.map_err(|source| EngineError::Thread { worker: 0, source })?;
    if !has_ended(&thread, || observer.poll() != Control::Continue) {
        return Err(EngineError::Interrupted);
    }
    thread.join().map_err(|panic| resume_unwind(panic))
}

/// Waits for the end of a thread, or until `is_enough`. Returns whether the thread has ended. Short
/// waits aren't cut.
pub(crate) fn has_ended<T>(thread: &JoinHandle<T>, mut is_enough: impl FnMut() -> bool) -> bool {
    let mut nap = Duration::from_micros(200);
    while !thread.is_finished() {
        if nap == LOOK_UP && is_enough() {
            return false;
        }
        thread::sleep(nap);
        nap = (nap * 2).min(LOOK_UP);
    }
    true
}
