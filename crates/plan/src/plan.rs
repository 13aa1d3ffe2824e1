//! The plan: the system, the dataset, the groups of clients and the phases.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::error::PlanError;
use crate::group::Group;
use crate::statement::Statement;
use crate::words::PhaseName;

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
    /// Operations as the user's statements; empty if the kinds of operation suffice.
    pub statements: Vec<Statement>,
    /// Groups of clients; a phase lists its active groups.
    pub groups: Vec<Group>,
    /// The phases of the run, in order. A drain follows each phase that has groups.
    pub phases: Vec<Phase>,
    /// Length of an interval.
    pub interval_ns: u64,
    /// Limit on service time after which an outcome is `timeout`; none for no limit.
    pub timeout_ns: Option<u64>,
    /// How long the engine waits for outstanding operations when a phase or the run ends.
    pub drain_limit_ns: u64,
    /// Most memory for the writes that a verify phase compares the records with: 49 bytes for each
    /// place in a table of records that is at least 7/16 full, and 32 for each further write that a
    /// record may hold. Beyond it a sample of the records is verified, by the hash of their
    /// ordinals. None without such a phase.
    pub verify_memory_bytes: Option<u64>,
    /// A phase ends as failed when the system answers nothing for this long while requests are
    /// outstanding; none for no limit.
    pub stall_limit_ns: Option<u64>,
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

/// A phase of a run with one purpose and one rate law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The purpose of the phase.
    pub name: PhaseName,
    /// The groups that are active; none for `settle`.
    pub groups: Vec<ActiveGroup>,
    /// Skip the phase if the dataset's first, middle and last record exist. If only the first ones
    /// exist, continue where the earlier load ended.
    pub only_if_missing: bool,
    /// Ends the phase after this time.
    pub duration_ns: Option<u64>,
    /// Ends the phase when its purpose is reached.
    pub until: Option<Until>,
}

/// A group's part in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActiveGroup {
    /// Index into `Plan::groups`.
    pub group: u32,
    /// Ends the group's part after this many operations, over all shares.
    pub operations: Option<u64>,
}

/// Stop when the mean rate is precise enough, or the rate is stationary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The evaluated statistic.
    pub rule: UntilRule,
    /// Bound on the relative standard error of the mean (for example 0.02), on the relative half
    /// width, or on the drift.
    pub bound: f64,
    /// Never stop before this many intervals.
    pub min_intervals: u32,
    /// Always stop at this many intervals; none for no limit.
    pub max_intervals: Option<u32>,
}

/// What ends a phase: the error of the mean rate, or the rate's drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UntilRule {
    /// Exactly cassandra-stress's: rates adjusted by the largest service time, intervals taken as
    /// independent.
    CassandraStress,
    /// Half the width of the 95 % confidence interval of the throughput, relative to it.
    Precision,
    /// The throughput's drift over the newer half of the intervals, for warm-ups.
    Stationary,
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
