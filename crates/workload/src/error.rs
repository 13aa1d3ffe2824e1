//! Errors in a plan's workload.

use kvmark_plan::OutOfRange;

/// An error in a workload, found before the clock starts.
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
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// YCSB's integrity text can be checked only when its length is known.
    #[error("dataset.fields.length varies; integrity values need a constant length")]
    VaryingIntegrity,
    /// The lines of a file can't be read.
    #[error("{path} can't be read: {cause}")]
    Lines {
        /// The file.
        path: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}
