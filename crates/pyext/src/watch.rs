//! Signals and progress, on the coordinator's thread.

use kvmark_engine::{Control, Observer, Progress};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Looks for signals and calls back into Python.
pub(crate) struct Watch {
    progress: Py<PyAny>,
    interrupts: u32,
    /// What the callback raised; the run ends and the error goes on to the caller.
    raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(progress: Py<PyAny>) -> Self {
        Self { progress, interrupts: 0, raised: None }
    }

    /// The callback's error, if it raised one.
    pub(crate) fn into_result(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
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
        });
        match self.interrupts {
            _ if self.raised.is_some() => Control::Stop,
            0 => Control::Continue,
            1 => Control::Stop,
            _ => Control::Abandon,
        }
    }
}
