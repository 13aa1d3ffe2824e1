//! Signals, progress, and leave to begin and to go on, on the coordinator's thread.

use kvmark_engine::{Control, Leave, Observer, Progress};
use kvmark_plan::PhaseName;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Looks for signals and calls back into Python.
pub(crate) struct Watch {
    progress: Py<PyAny>,
    /// None when every phase may begin at once.
    may_begin: Option<Py<PyAny>>,
    /// None when the run may go on until its plan ends.
    may_go_on: Option<Py<PyAny>>,
    interrupts: u32,
    /// What a callback raised; the run ends and the error goes on to the caller.
    raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(
        progress: Py<PyAny>,
        may_begin: Option<Py<PyAny>>,
        may_go_on: Option<Py<PyAny>>,
    ) -> Self {
        Self { progress, may_begin, may_go_on, interrupts: 0, raised: None }
    }

    /// A callback's error, if one raised.
    pub(crate) fn into_result(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }

    /// Whether the run may go on, as far as the caller says.
    fn goes_on(&self, py: Python<'_>) -> PyResult<bool> {
        self.may_go_on.as_ref().map_or(Ok(true), |asked| asked.call0(py)?.extract(py))
    }

    fn take(&mut self, error: PyErr, py: Python<'_>) {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            self.interrupts += 1;
        } else {
            self.raised.get_or_insert(error);
        }
    }
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) {
        let text = serde_json::to_string(progress).expect("progress is plain data");
        Python::attach(|py| {
            if let Err(error) = self.progress.call1(py, (text,)) {
                self.take(error, py);
            }
        });
    }

    fn poll(&mut self) -> Control {
        Python::attach(|py| {
            if let Err(error) = py.check_signals() {
                self.take(error, py);
            }
            // What the user wants goes before what the caller wants.
            if self.interrupts == 0 && self.raised.is_none() {
                match self.goes_on(py) {
                    Ok(true) => {}
                    Ok(false) => self.interrupts = 1,
                    Err(error) => self.take(error, py),
                }
            }
        });
        match self.interrupts {
            _ if self.raised.is_some() => Control::Stop,
            0 => Control::Continue,
            1 => Control::Stop,
            _ => Control::Abandon,
        }
    }

    fn may_begin(&mut self, phase: PhaseName) -> Leave {
        let Some(may_begin) = &self.may_begin else { return Leave::Now };
        let asked = Python::attach(|py| leave(&may_begin.call1(py, (phase.name(),))?, py));
        asked.unwrap_or_else(|error| {
            // The wait is ended by the next poll, or the phase that begins now is.
            let interrupts = self.interrupts;
            Python::attach(|py| self.take(error, py));
            if self.interrupts > interrupts { Leave::Wait } else { Leave::Now }
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
