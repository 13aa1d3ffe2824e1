//! Why a plan's workload can't be drawn.

/// What is wrong with a workload, found before the clock starts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The plan has no such group.
    #[error("groups[{group}] isn't in the plan; use an index below {groups}")]
    NoGroup {
        /// The index asked for.
        group: usize,
        /// Number of groups in the plan.
        groups: usize,
    },
    /// No operation can be drawn.
    #[error("groups[{group}].mix has no weight above 0; give one kind of operation a weight")]
    EmptyMix {
        /// Index of the group.
        group: usize,
    },
    /// A parameter of a law is outside the range in which the law is defined.
    #[error("{place} is {value}; use {range}")]
    OutOfRange {
        /// Path of the value in the plan, for example `groups[0].keys.count`.
        place: String,
        /// The value.
        value: String,
        /// What can be used instead.
        range: &'static str,
    },
    /// YCSB's integrity text can be checked only when its length is known.
    #[error("dataset.fields.length varies; integrity values need a constant length")]
    VaryingIntegrity,
}

/// Fails unless a parameter lies where its law is defined.
pub(crate) fn require(
    holds: bool,
    place: impl FnOnce() -> String,
    value: impl ToString,
    range: &'static str,
) -> Result<(), WorkloadError> {
    if holds {
        return Ok(());
    }
    Err(WorkloadError::OutOfRange { place: place(), value: value.to_string(), range })
}
