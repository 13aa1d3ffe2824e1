//! Phases of a run, and their ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::PhaseName;

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
