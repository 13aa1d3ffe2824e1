//! A console that lists the keys of a closed database.

use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver::options::Given;
use rocksdb::{DB, Direction, IteratorMode, Options};
use serde_json::Value;

use crate::failure::refusal;
use crate::options;

/// Keys of one answer.
const PAGE: usize = 1000;

/// Opens the database for reading at the first command, and keeps that state.
pub(crate) struct Console {
    path: PathBuf,
    opened: Option<(DB, Vec<String>)>,
}

impl Console {
    pub(crate) fn new(given: &Given) -> Self {
        Self { path: options::path(given), opened: None }
    }

    fn opened(&mut self) -> Result<&(DB, Vec<String>), OpenError> {
        if self.opened.is_none() {
            let (options, path) = (Options::default(), &self.path);
            let refused = |error: rocksdb::Error| refusal(path, &error);
            let tables = DB::list_cf(&options, path).map_err(refused)?;
            let db = DB::open_cf_for_read_only(&options, path, &tables, false).map_err(refused)?;
            self.opened = Some((db, tables));
        }
        Ok(self.opened.as_ref().expect("it was opened above"))
    }

    fn keys(&mut self, table: &str, after: Option<&str>) -> Result<Value, OpenError> {
        let (db, _) = self.opened()?;
        let family = db.cf_handle(table).ok_or_else(|| {
            OpenError::System(format!("the database has no table {table}: ask for its TABLES"))
        })?;
        let mode = after.map_or(IteratorMode::Start, |after| {
            IteratorMode::From(after.as_bytes(), Direction::Forward)
        });
        let mut keys = Vec::new();
        for item in db.iterator_cf(family, mode) {
            let (key, _) = item.map_err(|error| refusal(db.path(), &error))?;
            if after.is_some_and(|after| *key == *after.as_bytes()) {
                continue;
            }
            keys.push(Value::from(String::from_utf8_lossy(&key)));
            if keys.len() == PAGE {
                break;
            }
        }
        Ok(keys.into())
    }
}

impl kvmark_driver::Console for Console {
    /// `TABLES` gives the tables; `KEYS table` the first keys of one, in order, and `KEYS table
    /// after` those that follow a key. Bytes that aren't UTF-8 are replaced.
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["TABLES"] => Ok(self.opened()?.1.clone().into()),
            ["KEYS", table] => self.keys(table, None),
            ["KEYS", table, after] => self.keys(table, Some(after)),
            _ => Err(OpenError::System("a RocksDB database answers TABLES and KEYS".to_owned())),
        }
    }
}
