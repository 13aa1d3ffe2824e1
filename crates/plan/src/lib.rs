//! What one run does, fully decided.
//!
//! A [`Plan`] is the one value that goes down from Python to the engine. It holds no defaults:
//! every choice a user left open was made before a plan was written. Unknown fields are refused.
//! Durations and instants are nanoseconds of monotonic time, rates are operations per second, sizes
//! are bytes.
//!
//! The words shared by every crate ([`Kind`], [`Outcome`], [`PhaseName`]) live here too, so that
//! they are spelled once.

mod arrival;
mod check;
mod dataset;
mod rows;
mod statement;
mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use arrival::{Arrival, RatePoint};
pub use check::PlanError;
pub use dataset::{Dataset, Distribution, FieldChoice, FieldLayout, KeyChoice, KeyOrder, KeyText};
pub use dataset::{SizeLaw, ValueKind};
pub use rows::{Becomes, RowColumn, RowLaw, Rows, Shape, Visit};
pub use statement::{Argument, Basis, Check, Each, FormatPart, Generator, Statement, ValueType};
pub use words::{Kind, Outcome, PhaseName};

/// The version of the plan's format that this crate reads and writes.
pub const FORMAT: u32 = 1;

/// Everything decided for one run; no defaults left, no randomness but seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this format; must equal [`FORMAT`].
    pub format: u32,
    /// The workload's name as tables show it, for example `ycsb/a`.
    pub name: String,
    /// The system under test and the options its driver takes.
    pub system: System,
    /// One number per source of chance.
    pub seeds: Seeds,
    /// Which part of the operations this engine carries out when several machines share a run.
    pub share: Share,
    /// The keys and values that exist or are to be loaded.
    pub dataset: Dataset,
    /// Sent to the system once, in order, before sessions are made: tables, indexes, functions.
    pub prepare: Vec<String>,
    /// Operations in the user's own words; empty when the kinds of operation say it all.
    pub statements: Vec<Statement>,
    /// Groups of clients; a phase says which of them are active.
    pub groups: Vec<Group>,
    /// The stretches of the run, in order. A drain follows each phase that has groups.
    pub phases: Vec<Phase>,
    /// Length of an interval.
    pub interval_ns: u64,
    /// Limit on service time after which an outcome is `timeout`; none for no limit.
    pub timeout_ns: Option<u64>,
    /// How long the engine waits for outstanding operations when a phase or the run ends.
    pub drain_limit_ns: u64,
    /// Executor threads for an asynchronous driver; a blocking driver gets one thread per client.
    pub workers: u32,
    /// Cores to which workers are bound, in turn; empty leaves them to the kernel.
    pub pin: Vec<u32>,
}

/// The system under test. Options are read by the driver alone; the engine never looks at them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The driver's name in the registry, for example `rocksdb`.
    pub driver: String,
    /// The driver's own options, all of them, checked by the driver when it opens.
    pub options: BTreeMap<String, serde_json::Value>,
}

/// Seeds of the four sources of chance, so that each can vary alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// Arrival times.
    pub schedule: u64,
    /// Key ranks, scan lengths and field choices.
    pub keys: u64,
    /// Values and their sizes.
    pub values: u64,
    /// Operation kinds.
    pub mix: u64,
}

/// Engine `index` of `of` takes operations and insert ordinals congruent to `index` modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// This engine's place, from 0.
    pub index: u32,
    /// How many engines share the run.
    pub of: u32,
}

/// Clients that behave alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name in tables and histogram tags.
    pub name: String,
    /// Closed model: the number of clients. Open model: the limit on operations in flight. Over all
    /// shares: client `c` lives in share `c` modulo their number.
    pub clients: u32,
    /// When operations are due.
    pub arrival: Arrival,
    /// Proportions of operation kinds; weights are relative and need not add up to one.
    pub mix: Vec<Weight>,
    /// How keys of reads, updates, deletes and scan starts are chosen.
    pub keys: KeyChoice,
    /// Which fields a read asks for.
    pub read_fields: FieldChoice,
    /// Which fields an update writes; an insert always writes all.
    pub write_fields: FieldChoice,
    /// Records per scan.
    pub scan_length: SizeLaw,
    /// Whether values read are compared with the values that must be there.
    pub check_values: bool,
}

/// One kind of operation and its weight in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// What it does to the records.
    pub kind: Kind,
    /// The statement that does it, by index; none for the driver's own way.
    pub statement: Option<u32>,
    /// Its relative weight, not negative.
    pub weight: f64,
}

/// A stretch of a run with one purpose and one rate law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What the phase is for.
    pub name: PhaseName,
    /// The groups that are active; none for `settle`.
    pub groups: Vec<ActiveGroup>,
    /// Skip the phase when the dataset's first, middle and last record are already there.
    pub only_if_missing: bool,
    /// Ends the phase after this time.
    pub duration_ns: Option<u64>,
    /// Ends the phase when the relative standard error of the mean rate is small enough.
    pub until: Option<Until>,
}

/// A group's part in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActiveGroup {
    /// Index into [`Plan::groups`].
    pub group: u32,
    /// Ends the group's part after this many operations, over all shares.
    pub operations: Option<u64>,
}

/// Stop when the mean rate is known well enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Which standard error.
    pub rule: StderrRule,
    /// Bound on the relative standard error of the mean, for example 0.02.
    pub bound: f64,
    /// Never stop before this many intervals.
    pub min_intervals: u32,
    /// Always stop at this many intervals; none for no limit.
    pub max_intervals: Option<u32>,
}

/// The two rules for the standard error of the mean rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StderrRule {
    /// Exactly cassandra-stress's: rates adjusted by the largest service time, intervals taken as
    /// independent.
    CassandraStress,
    /// Corrected for autocorrelation through the effective sample size.
    Autocorrelated,
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`PlanError`] when the text isn't a plan of this format or a value contradicts another.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_str(text)?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as JSON, fields in declaration order.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has string keys and finite numbers only")
    }
}

/// The JSON Schema of [`Plan`], for the Python side and the reference.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(Plan);
    serde_json::to_string_pretty(&schema).expect("a schema is plain JSON")
}
