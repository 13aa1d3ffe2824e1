//! Lines of `events.jsonl`.

use kvmark_plan::PhaseName;
use serde::Serialize;

use crate::notice::Notice;
use crate::run::{ClockRecord, StoppedBy};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When, since the run's origin.
    pub at_ns: u64,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The system is open. Written for the records of killed runs.
    Opened {
        /// [`crate::COUNTING`] of the engine that measures.
        counting: u32,
        /// Wall time of the origin, since the Unix epoch.
        started_wall_ns: u64,
        /// What was opened, as the driver describes it.
        system: serde_json::Value,
        /// The system's capabilities as the driver reports them.
        capabilities: serde_json::Value,
        /// How time is taken.
        clock: ClockRecord,
    },
    /// A phase began.
    PhaseStarted {
        /// Its index in the plan.
        phase: u32,
        /// Its purpose.
        name: PhaseName,
    },
    /// A phase's window ended.
    PhaseEnded {
        /// Its index in the plan.
        phase: u32,
        /// Its purpose.
        name: PhaseName,
        /// Why it ended.
        stopped_by: StoppedBy,
    },
    /// A phase was not needed.
    PhaseSkipped {
        /// Its index in the plan.
        phase: u32,
        /// Its purpose.
        name: PhaseName,
    },
    /// The engine warns.
    Notice(Notice),
    /// A planned fault.
    Fault {
        /// What was done to the system.
        fault: String,
    },
    /// The user ended the run.
    Interrupted,
}
