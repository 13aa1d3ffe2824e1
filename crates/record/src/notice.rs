//! Typed warnings, written as events and in the run's record.

use serde::Serialize;

/// A typed warning with evidence and advice, kept with the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// Stable name of the kind of warning, in snake case.
    pub code: &'static str,
    /// The phase, by its index in the plan.
    pub phase: Option<u32>,
    /// The warning in one sentence.
    pub message: String,
    /// The measured values, with units in the names.
    pub evidence: serde_json::Value,
    /// The recommended action.
    pub advice: &'static str,
}
