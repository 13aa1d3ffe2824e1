//! What the engine returns of a run: the part of the manifest that was measured.

use std::collections::BTreeMap;

use kvmark_plan::{Outcome, PhaseName};
use serde::{Deserialize, Serialize};

use crate::durations::Distribution;
use crate::lag::LagRecord;
use crate::notice::Notice;

/// How this engine counts, as a number that rises with every change by which the same work gives
/// other figures. The table in Python's `records/model.py` has the change of each, and the
/// changelog's heading Measurement names it.
pub const COUNTING: u32 = 6;

/// Everything known of a run when it ends. Instants count from the origin, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`COUNTING`] of the engine that measured.
    pub counting: u32,
    /// Wall time of the origin, since the Unix epoch.
    pub started_wall_ns: u64,
    /// What was opened, as the driver describes it: system, version, configuration.
    pub system: serde_json::Value,
    /// What the driver says its system can do.
    pub capabilities: serde_json::Value,
    /// How time was taken.
    pub clock: ClockRecord,
    /// The phases, in the plan's order.
    pub phases: Vec<PhaseRecord>,
    /// The totals of all phases.
    pub totals: Vec<TotalRecord>,
    /// The warnings.
    pub notices: Vec<Notice>,
    /// Whether the user ended the run.
    pub interrupted: bool,
}

/// How time was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// `tsc`; `monotonic` where the machine has no time stamp counter to rely on; or `virtual`.
    pub source: String,
    /// What one time stamp costs.
    pub stamp_ns: f64,
    /// The least difference between two stamps.
    pub resolution_ns: u64,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Its index in the plan.
    pub index: u32,
    /// What it is for.
    pub name: PhaseName,
    /// Begin of its window.
    pub start_ns: u64,
    /// End of its window.
    pub end_ns: u64,
    /// The last completion known.
    pub drained_ns: u64,
    /// What ended it.
    pub stopped_by: StoppedBy,
    /// Relative standard error of the mean rate by the plan's rule; none without a rule or too
    /// early.
    pub relative_stderr: Option<f64>,
    /// The active groups.
    pub groups: Vec<GroupRecord>,
    /// The workers.
    pub workers: Vec<WorkerRecord>,
    /// The process as a whole.
    pub process: ProcessRecord,
    /// The system's own counters.
    pub statistics: BTreeMap<String, Change>,
    /// How late the stamps of reads were; none where no read was sampled.
    pub generator_lag: Option<LagRecord>,
    /// What the verify phase read back; none for other phases.
    pub sweep: Option<SweepRecord>,
    /// Records that an earlier load had put there, behind which this load went on; none where it
    /// began with the first record, and for other phases.
    pub records_found: Option<u64>,
}

/// The records that were written and read back. Of reads that missed, the record is gone though an
/// acknowledged write put it there; those that mismatched are `incomplete`, `resurrected` or, all
/// others, hold a value that none of their last acknowledged writes wrote. A record counts once, as
/// the first of these that holds of any of its fields: incomplete, torn, another value,
/// resurrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRecord {
    /// Records that were read back.
    pub records: u64,
    /// Records that were written: exact where all of them were read back, otherwise estimated from
    /// the sample's share.
    pub written: u64,
    /// Of those read back, how many hold a write whose outcome wasn't known to the generator.
    pub unacknowledged: u64,
    /// How many lack a field that an acknowledged write put there.
    pub incomplete: u64,
    /// How many hold a value that begins or ends like a write of theirs and goes on otherwise.
    pub torn: u64,
    /// How many have a field though the last acknowledged write removed the record.
    pub resurrected: u64,
}

/// What ended a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Every group did its number of operations.
    Operations,
    /// Its time was up.
    Duration,
    /// The standard error of the mean rate was small enough, or the largest number of intervals
    /// over.
    Until,
    /// The user.
    Cancelled,
    /// The system failed.
    Failed,
    /// It was not needed.
    Skipped,
}

/// A group's part in a phase, in operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// The group's name.
    pub group: String,
    /// Handed to a session.
    pub issued: u64,
    /// Ended, with whatever outcome.
    pub completed: u64,
    /// Ended as asked.
    pub ok: u64,
    /// Arrivals due; none in the closed model.
    pub due: Option<u64>,
    /// Due and never issued.
    pub dropped: u64,
    /// Issued more than a millisecond after the intended start.
    pub late: u64,
    /// Of these, those that were late because their client was busy; of the others it was free, and
    /// the worker was late.
    pub late_busy: u64,
    /// Answers that were read after the limit on service time, because the worker came late to
    /// them: they may have come in time, and are no timeouts.
    pub read_late: u64,
    /// In flight and given up when the drain limit was over.
    pub abandoned: u64,
    /// End of the acknowledged ordinals, exclusive.
    pub frontier: u64,
}

/// A worker's time in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its number.
    pub worker: u32,
    /// Processor time.
    pub cpu_ns: u64,
    /// Time it was ready and had no core; none where the kernel doesn't say.
    pub waiting_for_core_ns: Option<u64>,
    /// Processor time spent polling for the next due arrival.
    pub idle_spin_ns: u64,
    /// Elapsed time.
    pub wall_ns: u64,
    /// The cores it was bound to; empty when the kernel chose.
    pub cores: Vec<u32>,
}

/// The whole process in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Processor time outside the kernel.
    pub cpu_user_ns: u64,
    /// Processor time inside the kernel.
    pub cpu_system_ns: u64,
    /// Most memory resident so far.
    pub max_resident_bytes: u64,
    /// Times a thread gave up its core.
    pub voluntary_switches: u64,
    /// Times a thread lost its core.
    pub involuntary_switches: u64,
}

/// A counter of the system when a phase began and when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// At the begin.
    pub before: f64,
    /// At the end.
    pub after: f64,
}

/// A phase's operations of one group and kind with one outcome, drain included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalRecord {
    /// Index of the phase in the plan.
    pub phase: u32,
    /// The group's name.
    pub group: String,
    /// Name of the kind.
    pub operation: String,
    /// Whether these are parts of read-modify-writes; leave them out of sums.
    pub part: bool,
    /// How they ended.
    pub outcome: Outcome,
    /// Completed.
    pub count: u64,
    /// Completed inside the window: what throughput counts. With those that were to begin in the
    /// warm-up before, which the times don't have.
    pub in_window: u64,
    /// Records read or written.
    pub rows: u64,
    /// Service time.
    pub service: Distribution,
    /// Response time.
    pub response: Distribution,
    /// Wait time.
    pub wait: Distribution,
}
