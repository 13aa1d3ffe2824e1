//! The one table from the engine's errors to the classes of `kvmark.errors`.

use kvmark_driver::OpenError;
use kvmark_engine::EngineError;
use kvmark_tap::TapError;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// The Python class of an error.
fn class(error: &EngineError) -> &'static str {
    match error {
        EngineError::Plan(_) | EngineError::Workload(_) => "PlanError",
        EngineError::Unsupported(_) | EngineError::Open(OpenError::Option(_)) => "UsageError",
        EngineError::Open(_)
        | EngineError::LoadFailed { .. }
        | EngineError::NoAnswer { .. }
        | EngineError::Unresponsive { .. } => "SystemUnderTestError",
        EngineError::Interrupted => "Interrupted",
        _ => "RunError",
    }
}

/// The Python exception of an error that the engine has, too.
pub(crate) fn raise(py: Python<'_>, error: impl Into<EngineError>) -> PyErr {
    let error = error.into();
    exception(py, class(&error), error.to_string())
}

/// The Python exception of a tap that can't begin, or ended by a defect.
pub(crate) fn raise_tap(py: Python<'_>, error: &TapError) -> PyErr {
    let class = if matches!(error, TapError::Listen(..)) { "UsageError" } else { "RunError" };
    exception(py, class, error.to_string())
}

/// The Python exception of a panic on the coordinator's thread.
pub(crate) fn defect(py: Python<'_>) -> PyErr {
    exception(py, "RunError", "the run stopped by a defect in kvmark".to_owned())
}

/// An error that ended a run early, as the manifest keeps it.
pub(crate) fn failure_json(error: &EngineError) -> Value {
    json!({ "kind": class(error), "message": error.to_string() })
}

fn exception(py: Python<'_>, class: &str, message: String) -> PyErr {
    let raised = py
        .import("kvmark.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match raised {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}
