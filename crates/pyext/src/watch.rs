//! Callbacks for progress, start of phases and stop requests, on the coordinator's thread.

use kvmark_engine::{Control, Leave, Observer, Progress};
use kvmark_plan::PhaseName;
use pyo3::prelude::*;

/// Calls back into Python.
pub(crate) struct Watch {
    progress: Py<PyAny>,
    /// None when every phase may begin at once.
    may_begin: Option<Py<PyAny>>,
    /// None when nothing stops the run before its plan ends.
    stops: Option<Py<PyAny>>,
    /// None when no fault is planned.
    is_disturbed: Option<Py<PyAny>>,
    /// None when phases end by themselves.
    ends: Option<Py<PyAny>>,
    ended_phase: Option<u32>,
    /// The error of a callback, which ends the run and is raised to the caller.
    raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(
        progress: Py<PyAny>,
        may_begin: Option<Py<PyAny>>,
        stops: Option<Py<PyAny>>,
        is_disturbed: Option<Py<PyAny>>,
        ends: Option<Py<PyAny>>,
    ) -> Self {
        Self { progress, may_begin, stops, is_disturbed, ends, ended_phase: None, raised: None }
    }

    /// A callback's error, if one raised.
    pub(crate) fn into_result(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
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
        if let Err(error) = Python::attach(|py| self.progress.call1(py, (text,))) {
            self.raised.get_or_insert(error);
        }
    }

    fn poll(&mut self) -> Control {
        if self.raised.is_some() {
            return Control::Stop;
        }
        match self.look() {
            Ok(0) => Control::Continue,
            Ok(1) => Control::Stop,
            Ok(_) => Control::Abandon,
            Err(error) => {
                self.raised = Some(error);
                Control::Stop
            }
        }
    }

    fn ended_phase(&self) -> Option<u32> {
        self.ended_phase
    }

    fn is_disturbed(&mut self) -> bool {
        let Some(is_disturbed) = &self.is_disturbed else { return false };
        let asked = Python::attach(|py| is_disturbed.call0(py)?.extract(py));
        asked.unwrap_or_else(|error| {
            self.raised.get_or_insert(error);
            false
        })
    }

    fn may_begin(&mut self, phase: PhaseName) -> Leave {
        let Some(may_begin) = &self.may_begin else { return Leave::Now };
        let asked = Python::attach(|py| leave(&may_begin.call1(py, (phase.name(),))?, py));
        asked.unwrap_or_else(|error| {
            // The next poll ends the phase that begins now.
            self.raised.get_or_insert(error);
            Leave::Now
        })
    }
}

/// True and false mean now and not yet, a number an instant of wall time.
fn leave(answer: &Py<PyAny>, py: Python<'_>) -> PyResult<Leave> {
    if let Ok(now) = answer.extract::<bool>(py) {
        return Ok(if now { Leave::Now } else { Leave::Wait });
    }
    Ok(Leave::At { wall_ns: answer.extract(py)? })
}
