//! The engine's result of a run: the measured part of the manifest.

use std::collections::BTreeMap;

use kvmark_plan::{Outcome, PhaseName};
use serde::{Deserialize, Serialize};

use crate::durations::Distribution;
use crate::lag::LagRecord;
use crate::names::is_fill;
use crate::notice::Notice;

/// Version of this engine's measurement. It increases with every change that alters the figures of
/// the same work. Python's `records/countings.toml` lists the changes, and the changelog has them
/// under the heading Measurement.
pub const COUNTING: u32 = 6;

/// The results of a run. Instants count from the origin, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    /// [`COUNTING`] of the engine that measured.
    pub counting: u32,
    /// Wall time of the origin, since the Unix epoch.
    pub started_wall_ns: u64,
    /// What was opened, as the driver describes it: system, version, configuration.
    pub system: serde_json::Value,
    /// The system's capabilities as the driver reports them.
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
    /// Cost of one time stamp.
    pub stamp_ns: f64,
    /// The least difference between two stamps.
    pub resolution_ns: u64,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Its index in the plan.
    pub index: u32,
    /// Its purpose.
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
    /// Delay of read stamps; none without sampled reads.
    pub generator_lag: Option<LagRecord>,
    /// The result of the verify phase; none for other phases.
    pub sweep: Option<VerifyRecord>,
    /// Records of an earlier load after which this load continued; none if it began with the first
    /// record, and for other phases.
    pub records_found: Option<u64>,
}

/// The records that were written and read back. A missed read means that the record is missing
/// although an acknowledged write wrote it. Mismatched records are `incomplete`, `resurrected`, or
/// have a value of none of their last acknowledged writes. A record counts once, as the first of
/// these that applies to any of its fields: incomplete, torn, another value, resurrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyRecord {
    /// Records that were read back.
    pub records: u64,
    /// Records that were written: exact where all of them were read back, otherwise estimated from
    /// the sample's share.
    pub written: u64,
    /// Records with a value of a write whose outcome was unknown to the generator.
    pub unacknowledged: u64,
    /// Records without a field that an acknowledged write wrote.
    pub incomplete: u64,
    /// Records with a value that matches only the start or the end of a write.
    pub torn: u64,
    /// Records with a field although the last acknowledged write removed the record.
    pub resurrected: u64,
    /// The lost writes; none if none was lost.
    pub lost_writes: Option<LostWritesRecord>,
}

/// The newest acknowledged write of each record that lost it. Instants count from the origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWritesRecord {
    /// The first acknowledgement of a lost write.
    pub acknowledged_from_ns: u64,
    /// The last one.
    pub acknowledged_until_ns: u64,
    /// The first ones; `lost_writes.jsonl` has all.
    pub first: Vec<LostWriteRecord>,
}

/// A record's newest acknowledged write, which is lost: a line of `lost_writes.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWriteRecord {
    /// The record's key.
    pub key: String,
    /// Index of the lost field; none if the whole record is missing.
    pub field: Option<u32>,
    /// When the write was passed to the driver, since the origin.
    pub written_at_ns: u64,
    /// When its answer arrived, since the origin.
    pub acknowledged_at_ns: u64,
    /// The phase that wrote it.
    pub phase: PhaseName,
    /// The name of the group that wrote it.
    pub group: String,
    /// What it left in the record.
    pub expected: Expectation,
    /// What reading back found.
    pub found: Loss,
}

/// What a write leaves in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// A value.
    Value,
    /// Nothing: it removes the record.
    Removal,
}

/// What is found instead of a lost write, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// A field exists although the last acknowledged write removed the record.
    Resurrected,
    /// A field holds none of the values of its last acknowledged writes, but an older one of its
    /// record.
    Older,
    /// As older, but the value isn't known to be the record's.
    Other,
    /// As older, and the value begins or ends like that of a write.
    Torn,
    /// A field is missing although an acknowledged write wrote it.
    Incomplete,
    /// The record is missing although an acknowledged write wrote it.
    Missing,
}

/// What ended a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Every group completed its number of operations.
    Operations,
    /// Its time was up.
    Duration,
    /// The standard error of the mean rate was small enough, or the largest number of intervals was
    /// reached.
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
    /// Passed to a session.
    pub issued: u64,
    /// Ended, with any outcome.
    pub completed: u64,
    /// Ended successfully.
    pub ok: u64,
    /// Arrivals due; none in the closed model.
    pub due: Option<u64>,
    /// Due and never issued.
    pub dropped: u64,
    /// Issued more than a millisecond after the intended start.
    pub late: u64,
    /// Those of them with a busy client; for the others the client was free, and the worker was
    /// late.
    pub late_busy: u64,
    /// Answers that a delayed worker read after the limit on service time. They may have arrived in
    /// time and aren't timeouts.
    pub read_late: u64,
    /// Given up in flight at the drain limit.
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
    /// Time it was ready and had no core; none if the kernel doesn't report it.
    pub waiting_for_core_ns: Option<u64>,
    /// Processor time spent polling for the next due arrival.
    pub idle_spin_ns: u64,
    /// Elapsed time.
    pub wall_ns: u64,
    /// The cores it was bound to; empty when the kernel chose.
    pub cores: Vec<u32>,
}

/// The whole process in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Processor time outside the kernel.
    pub cpu_user_ns: u64,
    /// Processor time inside the kernel.
    pub cpu_system_ns: u64,
    /// Peak resident memory.
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
    /// Whether these are parts of operations: of read-modify-writes, fills, or attempts. Leave them
    /// out of sums.
    pub part: bool,
    /// How they ended.
    pub outcome: Outcome,
    /// Completed.
    pub count: u64,
    /// Completed inside the window, as counted for throughput. Includes operations due in the
    /// preceding warm-up, whose durations aren't here.
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

impl TotalRecord {
    /// Whether no other total counts these operations.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        !self.part || is_fill(&self.operation)
    }
}
