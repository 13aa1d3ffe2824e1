//! Why a plan is refused.

/// Why a text is not a plan that can be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not JSON, an unknown or missing field, or a value of the wrong type.
    #[error("the plan can't be read: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A value that contradicts its meaning or another value.
    #[error("{place}: {problem}")]
    Value {
        /// Path of the value, for example `groups[0].clients`.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}
