//! `name=value` arguments.

use std::collections::BTreeMap;
use std::str::FromStr;

/// What to do, where, and with which options.
pub(crate) struct Arguments {
    pub(crate) path: String,
    pub(crate) workload: String,
    pub(crate) records: u64,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    pub(crate) distribution: String,
    pub(crate) seed: u64,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) block_cache_bytes: usize,
    pub(crate) compression: String,
}

impl Arguments {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        for argument in arguments {
            let (name, value) =
                argument.split_once('=').ok_or(format!("'{argument}' isn't name=value"))?;
            given.insert(name.to_owned(), value.to_owned());
        }
        let records = take(&mut given, "records", None)?;
        let parsed = Self {
            path: take(&mut given, "path", None)?,
            workload: take(&mut given, "workload", None)?,
            records,
            operations: take(&mut given, "operations", Some(records))?,
            threads: take(&mut given, "threads", Some(1))?,
            distribution: take(&mut given, "distribution", Some("zipfian".to_owned()))?,
            seed: take(&mut given, "seed", Some(1))?,
            write_buffer_bytes: take(&mut given, "write_buffer_bytes", Some(64 << 20))?,
            block_cache_bytes: take(&mut given, "block_cache_bytes", Some(32 << 20))?,
            compression: take(&mut given, "compression", Some("lz4".to_owned()))?,
        };
        match given.keys().next() {
            Some(name) => Err(format!("there is no argument '{name}'")),
            None => Ok(parsed),
        }
    }

    pub(crate) fn loads(&self) -> bool {
        self.workload == "load"
    }
}

fn take<T: FromStr>(
    given: &mut BTreeMap<String, String>,
    name: &str,
    default: Option<T>,
) -> Result<T, String> {
    match given.remove(name) {
        Some(text) => text.parse().map_err(|_| format!("'{name}' can't be '{text}'")),
        None => default.ok_or(format!("'{name}' is missing")),
    }
}
