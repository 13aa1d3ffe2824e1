//! A row of `intervals.jsonl`.

use kvmark_plan::{Outcome, PhaseName};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::durations::Quantiles;

/// The records of one group in one interval: one operation with one outcome, or the total.
#[derive(Clone, Debug, Serialize)]
pub struct IntervalRow {
    /// Index of the phase in the plan.
    pub phase: u32,
    /// The purpose of the phase.
    pub phase_name: PhaseName,
    /// Whether the phase's window had ended.
    pub drain: bool,
    /// Begin of the interval, since the run's origin.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// The group's name.
    pub group: String,
    /// Name of the kind or the statement, or `TOTAL`.
    pub operation: String,
    /// Whether these are parts of operations: of read-modify-writes, fills, or attempts. `TOTAL` is
    /// without them.
    pub part: bool,
    /// How the operations ended.
    pub outcome: RowOutcome,
    /// Completed operations.
    pub count: u64,
    /// Those of them that were due in the preceding warm-up: their durations are in its drain.
    pub carried: u64,
    /// Records read or written.
    pub rows: u64,
    /// Service time; `None` if no operation due in this phase completed.
    #[serde(flatten, serialize_with = "service")]
    pub service: Option<Quantiles>,
    /// Response time, likewise.
    #[serde(flatten, serialize_with = "response")]
    pub response: Option<Quantiles>,
    /// Wait time, likewise.
    #[serde(flatten, serialize_with = "wait")]
    pub wait: Option<Quantiles>,
    /// Only with `TOTAL`.
    #[serde(flatten, serialize_with = "total")]
    pub total: Option<TotalColumns>,
}

/// The columns that only a `TOTAL` row fills.
#[derive(Clone, Debug)]
pub struct TotalColumns {
    /// The group's accounting at the end of the interval.
    pub accounting: GroupAccounting,
    /// Completed in this interval, and issued more than a millisecond after their intended start.
    pub late: u64,
    /// Those of them with a busy client; for the others the client was free, and the worker was
    /// late.
    pub late_busy: u64,
}

/// The accounting of a group at the end of an interval; counts are since the phase began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAccounting {
    /// The group's index in the plan.
    pub group: usize,
    /// Arrivals due; none in the closed model.
    pub due: Option<u64>,
    /// Operations issued.
    pub issued: u64,
    /// Answers that a delayed worker read after the limit on service time; they aren't timeouts.
    pub read_late: u64,
    /// Due and not yet issued; none in the closed model.
    pub backlog: Option<u64>,
    /// Operations in flight.
    pub in_flight: u64,
    /// End of the acknowledged ordinals, exclusive.
    pub frontier: u64,
}

/// The outcome column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOutcome {
    /// All outcomes together, with `TOTAL`.
    Any,
    /// This one.
    #[serde(untagged)]
    One(Outcome),
}

/// The columns of a sort of duration, null without values.
macro_rules! columns {
    ($($sort:ident),*) => {
        $(fn $sort<S: Serializer>(
            quantiles: &Option<Quantiles>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let (mut map, q) = (serializer.serialize_map(None)?, quantiles.as_ref());
            map.serialize_entry(concat!(stringify!($sort), "_ns_min"), &q.map(|q| q.min))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_mean"), &q.map(|q| q.mean))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_p50"), &q.map(|q| q.p50))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_p90"), &q.map(|q| q.p90))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_p95"), &q.map(|q| q.p95))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_p99"), &q.map(|q| q.p99))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_p999"), &q.map(|q| q.p999))?;
            map.serialize_entry(concat!(stringify!($sort), "_ns_max"), &q.map(|q| q.max))?;
            map.end()
        })*
    };
}

columns!(service, response, wait);

/// The columns of a `TOTAL` row, null in others.
fn total<S: Serializer>(total: &Option<TotalColumns>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    let total = total.as_ref();
    let accounting = total.map(|total| &total.accounting);
    map.serialize_entry("due", &accounting.and_then(|group| group.due))?;
    map.serialize_entry("issued", &accounting.map(|group| group.issued))?;
    map.serialize_entry("late", &total.map(|total| total.late))?;
    map.serialize_entry("late_busy", &total.map(|total| total.late_busy))?;
    map.serialize_entry("read_late", &accounting.map(|group| group.read_late))?;
    map.serialize_entry("backlog", &accounting.and_then(|group| group.backlog))?;
    map.serialize_entry("in_flight", &accounting.map(|group| group.in_flight))?;
    map.serialize_entry("frontier", &accounting.map(|group| group.frontier))?;
    map.end()
}
