//! Typed warnings, told as events and kept in the run's record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A typed warning with evidence and advice, kept with the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Stable name of the kind of warning, in snake case.
    pub code: String,
    /// The phase it speaks of, by its index in the plan.
    pub phase: Option<u32>,
    /// What is suspicious, in one sentence.
    pub message: String,
    /// The numbers behind it, units in the names.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// What to do about it.
    pub advice: String,
}
