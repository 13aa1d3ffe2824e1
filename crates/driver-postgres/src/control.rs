//! The driver's own connection, for information about the server, and the console.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_driver_server::framed::{Lines, Stream};
use kvmark_driver_server::settle;
use serde_json::{Map, Value};

use crate::connect::{Wire, put_parse, send};
use crate::failure::Failure;
use crate::message::{Messages, Reader, SYNC, put};
use crate::options::Settings;

/// The rows of a query, as texts by column.
pub(crate) type Rows = Vec<Map<String, Value>>;

/// The settings that describe the server's behaviour, not its place or its texts.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings \
     WHERE category !~ '^(File Loc|Reporting|Connections and Auth|Client Connection|Preset)' \
     OR name IN ('max_connections', 'statement_timeout', 'block_size', \
     'default_transaction_isolation', 'server_encoding', 'data_checksums')";

/// The counters of the database and of the log.
const STATISTICS: &str = "SELECT key AS name, value FROM pg_stat_database d, \
     jsonb_each_text(to_jsonb(d)) WHERE d.datname = current_database() \
     UNION ALL SELECT 'wal_bytes', CASE WHEN pg_is_in_recovery() THEN NULL ELSE \
     pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text END";

/// The numbers of [`STATISTICS`] that become statistics.
const NUMBERS: &str = "blks_hit blks_read conflicts deadlocks numbackends temp_bytes temp_files \
                       tup_deleted tup_fetched tup_inserted tup_returned tup_updated wal_bytes \
                       xact_commit xact_rollback";

/// Background work that `settle` waits for.
const WORKERS: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";

/// A connection to the server.
pub(crate) struct Control(Lines<Wire>);

impl Control {
    /// Connects with the first request.
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        let wire = Wire::new(Arc::clone(settings), std::iter::empty());
        Self(Lines::new(Arc::new(wire)))
    }

    /// Sends requests. A failed connection is reopened once.
    fn ask<T>(
        &self,
        requests: &[u8],
        send: impl Fn(&mut Stream, &[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.0.ask(&self.0.protocol.settings.target, requests, send)
    }

    /// The rows of statements.
    pub(crate) fn query(&self, sql: &str) -> Result<Rows, Failure> {
        let mut request = Vec::new();
        put(&mut request, b'Q', &[sql.as_bytes(), b"\0"]);
        rows(&self.ask(&request, send)?)
    }

    /// The description of a text's parameters and columns.
    pub(crate) fn describe_text(&self, text: &str) -> Result<Vec<u8>, Failure> {
        let mut request = Vec::new();
        put_parse(&mut request, "", text);
        put(&mut request, b'D', &[b"S\0"]);
        request.extend_from_slice(SYNC);
        self.ask(&request, send)
    }

    /// Describes the server, as far as known. `is_lost` is whether the table is lost in a crash.
    pub(crate) fn describe(&self, is_lost: bool) -> Description {
        let version = self.query("SHOW server_version").unwrap_or_default();
        let version = version.first().and_then(|row| row["server_version"].as_str());
        let version = version.and_then(|text| text.split(' ').next()).unwrap_or("unknown");
        let mut configuration = self.pairs(SETTINGS, "setting");
        if let Some(durability) = durability(&configuration, is_lost) {
            configuration.insert("durability".to_owned(), durability.to_string());
        }
        let system = "PostgreSQL".to_owned();
        Description { system, version: version.to_owned(), configuration }
    }

    pub(crate) fn statistics(&self) -> BTreeMap<String, f64> {
        let pairs = self.pairs(STATISTICS, "value").into_iter();
        let known = pairs.filter(|(name, _)| NUMBERS.split(' ').any(|known| known == name));
        known.filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect()
    }

    /// The column `value` of a query's rows, by the column `name`; empty if it fails.
    fn pairs(&self, sql: &str, value: &str) -> BTreeMap<String, String> {
        let text = |row: &Map<String, Value>, name| row[name].as_str().map(str::to_owned);
        let rows = self.query(sql).unwrap_or_default();
        rows.iter().filter_map(|row| Some((text(row, "name")?, text(row, value)?))).collect()
    }

    /// Waits until no table is vacuumed.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        let is_busy = || self.query(WORKERS).map(|rows| !rows.is_empty());
        settle(&self.0.protocol.settings.target, is_busy)
    }
}

/// A query, and its rows as texts by column.
impl kvmark_driver::Console for Control {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let rows = self.query(&words.join(" "));
        let rows = rows.map_err(|failure| failure.at(&self.0.protocol.settings.target))?;
        Ok(rows.into_iter().map(Value::Object).collect())
    }
}

pub(crate) fn rows(reply: &[u8]) -> Result<Rows, Failure> {
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for (tag, body) in Messages(reply) {
        let mut reader = Reader(body);
        match tag {
            b'T' => names = reader.columns()?,
            b'D' => {
                let mut row = Map::new();
                reader.count()?;
                for (name, _) in &names {
                    let value = reader.value()?.map(|value| String::from_utf8_lossy(value).into());
                    row.insert(name.clone(), value.unwrap_or(Value::Null));
                }
                rows.push(row);
            }
            _ => {}
        }
    }
    Ok(rows)
}

/// What an acknowledged write survives.
///
/// Without `synchronous_commit`, the log may still be in shared memory, which the end of any of the
/// server's processes clears. Without `fsync`, only the kernel has it.
fn durability(settings: &BTreeMap<String, String>, is_lost: bool) -> Option<Durability> {
    let (commit, fsync) = (settings.get("synchronous_commit")?, settings.get("fsync")?);
    Some(match (commit.as_str(), fsync.as_str()) {
        ("off", _) => Durability::None,
        _ if is_lost => Durability::None,
        (_, "off") => Durability::Process,
        _ => Durability::Sync,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_imply_what_an_acknowledged_write_survives() {
        let cases = [
            ("on", "on", false, "sync"),
            ("local", "on", false, "sync"),
            ("on", "off", false, "process"),
            ("off", "on", false, "none"),
            ("off", "off", false, "none"),
            ("on", "on", true, "none"),
        ];
        for (commit, fsync, is_lost, expected) in cases {
            let settings = [("synchronous_commit", commit), ("fsync", fsync)];
            let settings = settings.map(|(name, word)| (name.to_owned(), word.to_owned())).into();
            assert_eq!(durability(&settings, is_lost).unwrap().to_string(), expected);
        }
        assert_eq!(durability(&BTreeMap::new(), false), None);
    }
}
