//! Callbacks for progress, start of phases and stop requests, on the coordinator's thread.

use kvmark_engine::{Control, Leave, Observer, Progress};
use kvmark_plan::PhaseName;
use pyo3::prelude::*;

/// Calls back into Python.
pub(crate) struct Watch {
    pub(crate) progress: Py<PyAny>,
    /// None when every phase may begin at once.
    pub(crate) may_begin: Option<Py<PyAny>>,
    /// None when nothing stops the run before its plan ends.
    pub(crate) stops: Option<Py<PyAny>>,
    /// None when no fault is planned.
    pub(crate) is_disturbed: Option<Py<PyAny>>,
    /// None when phases end by themselves.
    pub(crate) ends: Option<Py<PyAny>>,
    pub(crate) ended_phase: Option<u32>,
    /// The error of a callback, which ends the run and is raised to the caller.
    pub(crate) raised: Option<PyErr>,
}

impl Watch {
    /// A callback's result, or a fallback if it raised.
    fn or_raised<T>(&mut self, result: PyResult<T>, fallback: T) -> T {
        result.unwrap_or_else(|error| {
            self.raised.get_or_insert(error);
            fallback
        })
    }

    /// Returns the number of stop requests and stores the newest phase that was ended.
    fn look(&mut self) -> PyResult<u32> {
        Python::attach(|py| {
            if let Some(ends) = &self.ends {
                self.ended_phase = ends.call0(py)?.extract(py)?;
            }
            self.stops.as_ref().map_or(Ok(0), |stops| stops.call0(py)?.extract(py))
        })
    }
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) {
        let text = serde_json::to_string(progress).expect("progress is plain data");
        let shown = Python::attach(|py| self.progress.call1(py, (text,)).map(drop));
        self.or_raised(shown, ());
    }

    fn poll(&mut self) -> Control {
        if self.raised.is_some() {
            return Control::Stop;
        }
        let stops = self.look();
        match self.or_raised(stops, 1) {
            0 => Control::Continue,
            1 => Control::Stop,
            _ => Control::Abandon,
        }
    }

    fn ended_phase(&self) -> Option<u32> {
        self.ended_phase
    }

    fn is_disturbed(&mut self) -> bool {
        let Some(is_disturbed) = &self.is_disturbed else { return false };
        let asked = Python::attach(|py| is_disturbed.call0(py)?.extract(py));
        self.or_raised(asked, false)
    }

    fn may_begin(&mut self, phase: PhaseName) -> Leave {
        let Some(may_begin) = &self.may_begin else { return Leave::Now };
        let asked = Python::attach(|py| leave(&may_begin.call1(py, (phase.name(),))?, py));
        // After an error, the next poll ends the phase that begins now.
        self.or_raised(asked, Leave::Now)
    }
}

/// True and false mean now and not yet, a number an instant of wall time.
fn leave(answer: &Py<PyAny>, py: Python<'_>) -> PyResult<Leave> {
    if let Ok(now) = answer.extract::<bool>(py) {
        return Ok(if now { Leave::Now } else { Leave::Wait });
    }
    Ok(Leave::At { wall_ns: answer.extract(py)? })
}
