//! A plan as text, and the schema of that text.

use crate::error::PlanError;
use crate::plan::Plan;

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
