//! Errors in a plan.

/// The reason why a text is no executable plan.
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

/// A parameter of a law is outside the range in which the law is defined.
#[derive(Debug, thiserror::Error)]
#[error("{place} is {value}; use {range}")]
pub struct OutOfRange {
    /// Path of the value in the plan, for example `groups[0].keys.count`.
    pub place: String,
    /// The value.
    pub value: String,
    /// What can be used instead.
    pub range: &'static str,
}

/// Fails unless a parameter is in the range in which its law is defined.
///
/// # Errors
/// [`OutOfRange`] if it isn't.
pub fn require(
    holds: bool,
    place: impl FnOnce() -> String,
    value: impl ToString,
    range: &'static str,
) -> Result<(), OutOfRange> {
    if holds {
        return Ok(());
    }
    Err(OutOfRange { place: place(), value: value.to_string(), range })
}
