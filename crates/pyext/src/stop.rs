//! The rules that end a phase, for the observer of several machines.

use kvmark_record::RateSample;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A plan's rule, applied to the intervals of all machines; see `kvmark_record::StopRule`.
#[pyclass]
pub(crate) struct StopRule(kvmark_record::StopRule);

#[pymethods]
impl StopRule {
    /// The rule that `until`, the JSON of a plan's, asks for.
    ///
    /// Raises `ValueError` when it is none.
    #[new]
    fn new(until: &str) -> PyResult<Self> {
        let until = serde_json::from_str(until);
        let until = until.map_err(|problem| PyValueError::new_err(problem.to_string()))?;
        Ok(Self(kvmark_record::StopRule::new(until)))
    }

    /// Takes the next interval: its instants, its rows, its operations that succeeded, and its
    /// largest service time.
    fn push(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        rows: u64,
        succeeded: u64,
        largest_service_ns: u64,
    ) {
        self.0.push(&RateSample { start_ns, end_ns, rows, succeeded, largest_service_ns });
    }

    /// Whether the phase may end.
    fn satisfied(&self) -> bool {
        self.0.satisfied()
    }

    /// The relative standard error of the mean rate, where the rule has one.
    fn relative_stderr(&self) -> Option<f64> {
        self.0.relative_stderr()
    }
}
