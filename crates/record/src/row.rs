//! A row of `intervals.jsonl`.

use kvmark_plan::{Outcome, PhaseName};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::accounting::GroupAccounting;
use crate::durations::Quantiles;

/// The records of one group in one interval: one operation with one outcome, or the total.
#[derive(Clone, Debug)]
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
    /// Whether these are parts of read-modify-writes; they are not in `TOTAL`.
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
    pub service: Option<Quantiles>,
    /// Response time, likewise.
    pub response: Option<Quantiles>,
    /// Wait time, likewise.
    pub wait: Option<Quantiles>,
    /// Only with `TOTAL`.
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

/// The outcome column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// All outcomes together, with `TOTAL`.
    Any,
    /// This one.
    One(Outcome),
}

impl RowOutcome {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::One(outcome) => outcome.name(),
        }
    }
}

/// Column names of a sort of duration, in the order of [`Quantiles`].
type Columns = [&'static str; 8];

macro_rules! columns {
    ($sort:literal) => {
        [
            concat!($sort, "_ns_min"),
            concat!($sort, "_ns_mean"),
            concat!($sort, "_ns_p50"),
            concat!($sort, "_ns_p90"),
            concat!($sort, "_ns_p95"),
            concat!($sort, "_ns_p99"),
            concat!($sort, "_ns_p999"),
            concat!($sort, "_ns_max"),
        ]
    };
}

impl Serialize for IntervalRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("phase", &self.phase)?;
        map.serialize_entry("phase_name", &self.phase_name)?;
        map.serialize_entry("drain", &self.drain)?;
        map.serialize_entry("start_ns", &self.start_ns)?;
        map.serialize_entry("end_ns", &self.end_ns)?;
        map.serialize_entry("group", &self.group)?;
        map.serialize_entry("operation", &self.operation)?;
        map.serialize_entry("part", &self.part)?;
        map.serialize_entry("outcome", self.outcome.name())?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("carried", &self.carried)?;
        map.serialize_entry("rows", &self.rows)?;
        put_quantiles(&mut map, &columns!("service"), self.service.as_ref())?;
        put_quantiles(&mut map, &columns!("response"), self.response.as_ref())?;
        put_quantiles(&mut map, &columns!("wait"), self.wait.as_ref())?;
        let total = self.total.as_ref();
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
}

fn put_quantiles<M: SerializeMap>(
    map: &mut M,
    columns: &Columns,
    quantiles: Option<&Quantiles>,
) -> Result<(), M::Error> {
    let [min, mean, p50, p90, p95, p99, p999, max] = columns;
    map.serialize_entry(min, &quantiles.map(|q| q.min))?;
    map.serialize_entry(mean, &quantiles.map(|q| q.mean))?;
    map.serialize_entry(p50, &quantiles.map(|q| q.p50))?;
    map.serialize_entry(p90, &quantiles.map(|q| q.p90))?;
    map.serialize_entry(p95, &quantiles.map(|q| q.p95))?;
    map.serialize_entry(p99, &quantiles.map(|q| q.p99))?;
    map.serialize_entry(p999, &quantiles.map(|q| q.p999))?;
    map.serialize_entry(max, &quantiles.map(|q| q.max))
}
