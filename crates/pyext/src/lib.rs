//! The interface between Python and the engine: `kvmark._engine`.
//!
//! [`run`] releases the interpreter lock during a run. The coordinator's thread takes it five times
//! a second to check for a stop, and once per interval to report progress. Workers never take it.

mod console;
mod draws;
mod errors;
mod lag;
mod registry;
mod stop;
mod taps;
mod trace;
mod watch;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use kvmark_engine::{Completed, Recording};
use kvmark_plan::Plan;
use kvmark_record::EncodedError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::console::Console;
use crate::draws::draw_operations;
use crate::errors::{failure_json, raise};
use crate::stop::StopRule;
use crate::taps::tap;
use crate::trace::{Reuse, hash_key_of, hash_keys, kind_of, redis_command, shape_of};
use crate::watch::Watch;

/// Executes a plan and writes its records to the folder, which must exist and contain none.
///
/// Returns JSON: `record`, the engine's part of the manifest; `failure`, why the run ended early
/// (`kind` and `message`), or null; and `abandoned`, whether threads of this process still wait for
/// the system, so that the process should end. Calls `progress` with a JSON text about once per
/// interval, and `may_begin` with the name of each phase before it begins, until that is true or an
/// instant for it, in nanoseconds of wall time since the Unix epoch, is near. `stops` is called
/// about five times a second and returns the number of stop requests: one ends the run and keeps
/// the measurement, two return without waiting for requests in flight. `is_disturbed` is called as
/// often and returns whether a planned fault is active; during a fault no silence of the system
/// ends the run. `ends` is called as often and returns the index of the newest phase that was ended
/// from outside, or None.
///
/// Raises a class of `kvmark.errors` when the run can't begin; then nothing was written.
///
/// `recording` is a folder and the 16 bytes of a hash key: measured operations are logged there
/// (`kvmark_engine::Recording`).
#[pyfunction]
#[pyo3(signature = (
    plan, folder, progress, may_begin=None, stops=None, recording=None, is_disturbed=None,
    ends=None
))]
#[expect(clippy::too_many_arguments, reason = "it is called by name, from one place")]
fn run(
    py: Python<'_>,
    plan: &str,
    folder: PathBuf,
    progress: Py<PyAny>,
    may_begin: Option<Py<PyAny>>,
    stops: Option<Py<PyAny>>,
    recording: Option<(PathBuf, Vec<u8>)>,
    is_disturbed: Option<Py<PyAny>>,
    ends: Option<Py<PyAny>>,
) -> PyResult<String> {
    let recording = recording.map(|(folder, hash_key)| -> PyResult<Recording> {
        Ok(Recording { folder, hash_key: hash_key_of(&hash_key)? })
    });
    let recording = recording.transpose()?;
    let plan = Plan::from_json(plan).map_err(|error| raise(py, error))?;
    let (ended_phase, raised) = (None, None);
    let mut watch = Watch { progress, may_begin, stops, is_disturbed, ends, ended_phase, raised };
    let result = py.detach(|| {
        catch_unwind(AssertUnwindSafe(|| {
            registry::run(&plan, &folder, recording.as_ref(), &mut watch)
        }))
    });
    let Completed { record, failure, abandoned } = match result {
        Ok(result) => result.map_err(|error| raise(py, error))?,
        Err(_) => return Err(errors::defect(py)),
    };
    watch.raised.map_or(Ok(()), Err)?;
    let failure = failure.as_ref().map(failure_json);
    Ok(json!({ "record": record, "failure": failure, "abandoned": abandoned }).to_string())
}

/// Reads a plan, checks it and gives it back as the engine understands it, as JSON.
///
/// Raises `kvmark.errors.PlanError` when it can't be carried out.
#[pyfunction]
fn check_plan(py: Python<'_>, plan: &str) -> PyResult<String> {
    Plan::from_json(plan).map(|plan| plan.to_json()).map_err(|error| raise(py, error))
}

/// The cost of a time stamp and the clock's grain on this machine, in nanoseconds.
#[pyfunction]
fn calibrate() -> (f64, u64) {
    let calibration = kvmark_engine::calibrate();
    (calibration.stamp_ns, calibration.resolution_ns)
}

/// Delay of this machine's stamps after arrivals, in nanoseconds: median and 99th percentile. None
/// if the kernel doesn't timestamp arrivals.
#[pyfunction]
fn stamp_lag(py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
    Ok(py.detach(lag::measure)?)
}

/// The options of this build's drivers as JSON: by driver, a list of objects with `name`,
/// `meaning`, `accepts` and `default`.
#[pyfunction]
fn driver_options() -> String {
    registry::options().to_string()
}

/// The properties of this build's drivers as JSON: a list of `kvmark_driver::About`.
#[pyfunction]
fn drivers() -> String {
    json!(registry::about()).to_string()
}

/// The buckets of an encoded histogram, from the least value up: least value, largest, count.
///
/// Each is a signed number of 8 bytes, little-endian: an array is made of them without a list.
///
/// Raises `ValueError` when the text isn't an HdrHistogram.
#[pyfunction]
fn decode_histogram<'py>(py: Python<'py>, encoded: &str) -> PyResult<Bound<'py, PyBytes>> {
    let buckets = kvmark_record::decoded(encoded).map_err(not_a_histogram)?;
    let numbers = buckets.into_iter().flat_map(|bucket| [bucket.low, bucket.high, bucket.count]);
    let bytes: Vec<u8> = numbers
        .flat_map(|number| i64::try_from(number).unwrap_or(i64::MAX).to_le_bytes())
        .collect();
    Ok(PyBytes::new(py, &bytes))
}

/// Values and their counts as an HdrHistogram with `digits` significant digits.
///
/// Raises `ValueError` when there is none of them.
#[pyfunction]
fn encode_histogram(values: Vec<(u64, u64)>, digits: u8) -> PyResult<String> {
    kvmark_record::encoded(&values, digits).map_err(not_a_histogram)
}

/// Draws `count` numbers from a seed by a law of cassandra-stress, given as JSON like in plans.
///
/// Raises `ValueError` when it isn't one.
#[pyfunction]
fn draw_law(law: &str, seed: i64, count: usize) -> PyResult<Vec<i64>> {
    let wrong = |problem: &dyn Display| PyValueError::new_err(format!("not a law: {problem}"));
    let law = serde_json::from_str(law).map_err(|problem| wrong(&problem))?;
    kvmark_stress_rows::drawn(&law, seed, count).map_err(|problem| wrong(&problem))
}

fn not_a_histogram(problem: EncodedError) -> PyErr {
    PyValueError::new_err(format!("not an HdrHistogram: {problem}"))
}

/// The native half of kvmark.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add("counting", kvmark_record::COUNTING)?;
    module.add("build_profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    module.add_class::<Console>()?;
    module.add_class::<Reuse>()?;
    module.add_class::<StopRule>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(check_plan, module)?)?;
    module.add_function(wrap_pyfunction!(calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(stamp_lag, module)?)?;
    module.add_function(wrap_pyfunction!(decode_histogram, module)?)?;
    module.add_function(wrap_pyfunction!(encode_histogram, module)?)?;
    module.add_function(wrap_pyfunction!(draw_law, module)?)?;
    module.add_function(wrap_pyfunction!(draw_operations, module)?)?;
    module.add_function(wrap_pyfunction!(hash_keys, module)?)?;
    module.add_function(wrap_pyfunction!(kind_of, module)?)?;
    module.add_function(wrap_pyfunction!(shape_of, module)?)?;
    module.add_function(wrap_pyfunction!(redis_command, module)?)?;
    module.add_function(wrap_pyfunction!(tap, module)?)?;
    module.add_function(wrap_pyfunction!(driver_options, module)?)?;
    module.add_function(wrap_pyfunction!(drivers, module)?)
}
