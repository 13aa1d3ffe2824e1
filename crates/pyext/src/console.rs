//! A console for administrative commands of a server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kvmark_driver::{AnyConsole, OpenError};
use kvmark_engine::EngineError;
use pyo3::prelude::*;

use crate::errors::{defect, raise};
use crate::registry;

/// Interval of checks for an interruption by the user.
const LOOK: Duration = Duration::from_millis(50);

/// A connection to the server that a driver's options, as JSON, name first. Nothing is connected
/// yet; it is closed with this object.
///
/// Raises a class of `kvmark.errors` when the options can't be used.
#[pyclass(frozen)]
pub(crate) struct Console(Mutex<Option<AnyConsole>>);

#[pymethods]
impl Console {
    #[new]
    fn new(py: Python<'_>, driver: &str, options: &str) -> PyResult<Self> {
        let options = serde_json::from_str(options).map_err(|error| {
            raise(py, EngineError::Unsupported(format!("the options aren't JSON ({error})")))
        })?;
        let console = registry::console(driver, &options).map_err(|error| raise(py, error))?;
        Ok(Self(Mutex::new(Some(console))))
    }

    /// The answer to a command's words, or to a statement, as JSON. A separate thread waits for it,
    /// so that signals are handled. After an interruption the connection can't be used again.
    ///
    /// Raises `kvmark.errors.SystemUnderTestError` when the server can't be reached, doesn't answer
    /// in time, or refuses.
    fn ask(&self, py: Python<'_>, words: Vec<String>) -> PyResult<String> {
        let mut console = self.take().ok_or_else(|| {
            let text = "the server is being asked something else, or that was interrupted";
            raise(py, OpenError::System(text.to_owned()))
        })?;
        let (tell, mut told) = channel();
        let asking = thread::Builder::new().name("kvmark-console".to_owned());
        asking.spawn(move || {
            let answer = catch_unwind(AssertUnwindSafe(|| console.ask(&words)));
            // After an interruption, the receiver is gone.
            let _ = tell.send((console, answer));
        })?;
        loop {
            let waited;
            (told, waited) = py.detach(move || {
                let waited = told.recv_timeout(LOOK);
                (told, waited)
            });
            match waited {
                Ok((console, answer)) => {
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(console);
                    let answer = answer.map_err(|_| defect(py))?;
                    let answer = answer.map_err(|error| raise(py, error))?;
                    return Ok(answer.to_string());
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(defect(py)),
            }
        }
    }
}

impl Console {
    fn take(&self) -> Option<AnyConsole> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
