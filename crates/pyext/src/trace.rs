//! Bulk functions for keys of traces, and the meaning of commands.

use kvmark_trace::HashKey;
use kvmark_trace::verbs::{self, Command};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

/// Reuse distances of keys, see `kvmark_trace::Reuse`.
#[pyclass]
pub(crate) struct Reuse(kvmark_trace::Reuse);

#[pymethods]
impl Reuse {
    #[new]
    fn new(limit: usize) -> Self {
        Self(kvmark_trace::Reuse::new(limit))
    }

    /// Adds operations in order: the hashes of their keys, 8 bytes each in little endian, and one
    /// byte each that is 0 for writes.
    ///
    /// Raises `ValueError` when there aren't as many of both.
    fn add(&mut self, py: Python<'_>, keys: &[u8], reads: &[u8]) -> PyResult<()> {
        let (keys, rest) = keys.as_chunks::<8>();
        if !rest.is_empty() || keys.len() != reads.len() {
            return Err(PyValueError::new_err("as many reads as keys of 8 bytes are needed"));
        }
        py.detach(|| {
            for (key, &is_read) in keys.iter().zip(reads) {
                self.0.add(u64::from_le_bytes(*key), is_read != 0);
            }
        });
        Ok(())
    }

    /// The result, `kvmark_trace::Reused`, as JSON.
    fn result(&self) -> String {
        json!(self.0.result()).to_string()
    }
}

/// The hashes of keys that lie one behind another, 8 bytes each; the lengths are 4 bytes each, all
/// in little endian. `key` has 16 bytes.
///
/// Raises `ValueError` when the sizes don't fit.
#[pyfunction]
pub(crate) fn hash_keys<'py>(
    py: Python<'py>,
    key: &[u8],
    joined: &[u8],
    lengths: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let wrong = |problem: &str| PyValueError::new_err(problem.to_owned());
    let key = hash_key_of(key)?;
    let (lengths, rest) = lengths.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(wrong("a length has 4 bytes"));
    }
    let hashed = py.detach(|| {
        let lengths: Vec<u32> = lengths.iter().map(|length| u32::from_le_bytes(*length)).collect();
        key.hash_all(joined, &lengths)
    });
    let hashed = hashed.map_err(|problem| wrong(&problem.to_string()))?;
    let bytes: Vec<u8> = hashed.into_iter().flat_map(u64::to_le_bytes).collect();
    Ok(PyBytes::new(py, &bytes))
}

/// The kind of an operation of that name, one of `kvmark_trace::verbs::KINDS`.
#[pyfunction]
pub(crate) fn kind_of(verb: &str) -> &'static str {
    verbs::KINDS[usize::from(verbs::kind_of(verb))]
}

/// The command with its key, value and time to live left out, such as `set {key} {value}`.
#[pyfunction]
pub(crate) fn shape_of(verb: &str, expires: bool) -> String {
    verbs::shape_of(verb, expires)
}

/// Places of keys, places of values, bytes of all values, and a time to live.
type Shape = (Vec<usize>, Vec<usize>, Option<u64>, Option<u64>);

/// The parts of a Redis command: the positions of its keys among the words, those of the values
/// that it writes to one key, the bytes of all values, and its time to live in milliseconds.
///
/// Raises `ValueError` when there are no words.
#[pyfunction]
pub(crate) fn redis_command(words: Vec<Bound<'_, PyBytes>>) -> PyResult<Shape> {
    let (name, rest) =
        words.split_first().ok_or_else(|| PyValueError::new_err("a command has a name"))?;
    let mut command = Command::named(&String::from_utf8_lossy(name.as_bytes()));
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (place, word) in (1..).zip(rest) {
        if command.awaits_key() {
            keys.push(place);
        } else if command.awaits_value() {
            values.push(place);
        }
        let word = word.as_bytes();
        command.word(word.len() as u64, word);
    }
    Ok((keys, values, command.value_bytes(), command.ttl_ms()))
}

/// From its 16 bytes.
pub(crate) fn hash_key_of(bytes: &[u8]) -> PyResult<HashKey> {
    let key = bytes.try_into();
    let key = key.map_err(|_| PyValueError::new_err("a hash key has 16 bytes"))?;
    Ok(HashKey::new(&key))
}
