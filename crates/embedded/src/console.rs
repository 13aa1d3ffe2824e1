//! A console that lists the keys of a closed database.

use kvmark_driver::OpenError;
use kvmark_driver::options::Given;
use serde_json::Value;

use crate::{Access, ByteHandle as _, ByteStore, Durability, Opening, path};

/// Keys of one answer.
const PAGE: usize = 1000;

/// Opens a table for reading at the first command about it, and keeps that state.
pub(crate) struct Console<S: ByteStore> {
    given: Given,
    opened: Option<(String, S::Handle)>,
}

impl<S: ByteStore> Console<S> {
    pub(crate) fn new(given: Given) -> Self {
        Self { given, opened: None }
    }

    fn opened(&mut self, table: &str) -> Result<&mut S::Handle, OpenError> {
        if self.opened.as_ref().is_none_or(|(opened, _)| opened != table) {
            // A store is open once.
            self.opened = None;
            let (path, given) = (path(&self.given), &self.given);
            let (durability, access) = (Durability::Process, Access::Read);
            let opening = Opening { path: &path, table, given, durability, access };
            let store = S::open(&opening)?.into();
            self.opened = Some((table.to_owned(), S::handle(&store)?));
        }
        Ok(&mut self.opened.as_mut().expect("it was opened above").1)
    }

    fn keys(&mut self, table: &str, after: &str) -> Result<Value, OpenError> {
        let mut keys = Vec::new();
        let handle = self.opened(table)?;
        let scanned = handle.scan(after.as_bytes(), |key, _| {
            if after.is_empty() || key != after.as_bytes() {
                keys.push(Value::from(String::from_utf8_lossy(key)));
            }
            keys.len() < PAGE
        });
        scanned.map_err(|error| OpenError::System(error.text))?;
        Ok(keys.into())
    }
}

impl<S: ByteStore> kvmark_driver::Console for Console<S> {
    /// `TABLES` gives the tables; `KEYS table` the first keys of one, in order, and `KEYS table
    /// after` those that follow a key. Bytes that aren't UTF-8 are replaced.
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["TABLES"] => {
                self.opened = None;
                Ok(S::tables(&path(&self.given))?.into())
            }
            ["KEYS", table] => self.keys(table, ""),
            ["KEYS", table, after] => self.keys(table, after),
            _ => {
                let text = format!("a database of {} answers TABLES and KEYS", S::SYSTEM);
                Err(OpenError::System(text))
            }
        }
    }
}
