//! A tap that records traffic, see `kvmark_tap`.

use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver_server::{Target, Tls, TlsFiles};
use kvmark_tap::{Keep, Settings, TapProtocol};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;

use crate::errors::{raise, raise_tap};
use crate::trace::hash_key_of;

/// As Python writes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    host: String,
    port: u16,
    protocol: String,
    address: String,
    default_port: u16,
    tls: bool,
    ca_file: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    server_name: Option<String>,
    threads: usize,
    keep_keys: bool,
    keep_values: bool,
    memory_bytes: usize,
    disk_bytes: u64,
}

/// Forwards clients' requests to a server and records them on tapes in the folder, as long as
/// `goes_on` returns true. `goes_on` is called ten times a second with `kvmark_tap::Progress` as
/// JSON.
///
/// Returns JSON, `kvmark_tap::TapReport`. Raises a class of `kvmark.errors` when it can't begin.
#[pyfunction]
pub(crate) fn tap(
    py: Python<'_>,
    settings: &str,
    folder: PathBuf,
    hash_key: &[u8],
    goes_on: Py<PyAny>,
) -> PyResult<String> {
    let hash_key = hash_key_of(hash_key)?;
    let given: Given = serde_json::from_str(settings)
        .map_err(|problem| PyValueError::new_err(problem.to_string()))?;
    let settings = settings_of(given).map_err(|problem| raise(py, problem))?;
    py.detach(|| settings.target.check()).map_err(|problem| raise(py, problem))?;
    let mut raised = None;
    let told = py.detach(|| {
        kvmark_tap::run(&settings, &folder, hash_key, &mut |progress| {
            let text = json!(progress).to_string();
            let said = Python::attach(|py| goes_on.call1(py, (text,))?.extract::<bool>(py));
            said.unwrap_or_else(|problem| {
                raised = Some(problem);
                false
            })
        })
    });
    let told = told.map_err(|problem| raise_tap(py, &problem))?;
    raised.map_or_else(|| Ok(json!(told).to_string()), Err)
}

fn settings_of(given: Given) -> Result<Settings, OpenError> {
    let mut targets = Target::list(&given.address, given.default_port)?;
    let target = targets.swap_remove(0);
    let own = given.cert_file.as_deref().zip(given.key_file.as_deref());
    let (ca, server_name) = (given.ca_file.as_deref(), given.server_name.as_deref());
    let tls = given.tls.then(|| Tls::new(TlsFiles { ca, own, server_name })).transpose()?;
    let protocol = TapProtocol::named(&given.protocol).ok_or_else(|| {
        let [first, second, third] = TapProtocol::ALL.map(TapProtocol::name);
        let text = format!("a tap understands {first}, {second} and {third}, and not");
        OpenError::Option(format!("{text} {}", given.protocol))
    })?;
    let Given { host, port, threads, memory_bytes, disk_bytes, .. } = given;
    let (listen, keep) = ((host, port), Keep { keys: given.keep_keys, values: given.keep_values });
    Ok(Settings { listen, target, tls, protocol, threads, keep, memory_bytes, disk_bytes })
}
