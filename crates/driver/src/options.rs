//! Options by name, as URLs and plans carry them.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use crate::OpenError;

/// Takes a driver's options out one by one and refuses what is left.
#[derive(Debug)]
pub struct Options {
    left: BTreeMap<String, Value>,
    known: Vec<&'static str>,
}

impl Options {
    /// The options of a plan.
    #[must_use]
    pub fn new(options: &BTreeMap<String, Value>) -> Self {
        Self { left: options.clone(), known: Vec::new() }
    }

    /// The option's value, from a JSON scalar or its text, or `default` where it isn't given.
    ///
    /// # Errors
    /// [`OpenError::Option`] when the value doesn't read as `T`; `accepts` says what would.
    pub fn take<T: FromStr>(
        &mut self,
        name: &'static str,
        accepts: &str,
        default: T,
    ) -> Result<T, OpenError> {
        self.known.push(name);
        let Some(value) = self.left.remove(name) else { return Ok(default) };
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        text.parse().map_err(|_| {
            OpenError::Option(format!("option '{name}' can't be '{text}': give {accepts}"))
        })
    }

    /// Refuses options that nobody took.
    ///
    /// # Errors
    /// [`OpenError::Option`] naming the first unknown option and the known ones.
    pub fn finish(self) -> Result<(), OpenError> {
        let Some(name) = self.left.keys().next() else { return Ok(()) };
        let known = self.known.join(", ");
        Err(OpenError::Option(format!("there is no option '{name}'; known are {known}")))
    }
}
