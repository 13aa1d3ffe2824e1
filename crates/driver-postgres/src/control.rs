//! The store: its opening, information about the server, and the console.

use std::sync::Arc;

use kvmark_driver::{About, Description, Durability, Layout, Never, OpenError, Place, Scheme};
use kvmark_driver_server::framed::RequestReplySession;
use kvmark_driver_server::{Counters, SessionOf, Store, Target};
use serde_json::{Map, Value};

use crate::connect::put_parse;
use crate::failure::Failure;
use crate::message::{Messages, Reader, SYNC, put};
use crate::operation::{PostgresOperation, Prepared};
use crate::options::{PORT, Settings};
use crate::prepare::prepare;
use crate::text::Text;

/// The rows of a query, as texts by column.
pub(crate) type Rows = Vec<Map<String, Value>>;

/// The settings that describe the server's behaviour, not its place or its texts.
const SETTINGS: &str = "SELECT name, setting AS value FROM pg_settings \
     WHERE category !~ '^(File Loc|Reporting|Connections and Auth|Client Connection|Preset)' \
     OR name IN ('max_connections', 'statement_timeout', 'block_size', \
     'default_transaction_isolation', 'server_encoding', 'data_checksums')";

/// The counters of the database and of the log, and the number of vacuumed tables.
const STATISTICS: &str = "SELECT key AS name, value FROM pg_stat_database d, \
     jsonb_each_text(to_jsonb(d)) WHERE d.datname = current_database() \
     UNION ALL SELECT 'wal_bytes', CASE WHEN pg_is_in_recovery() THEN NULL ELSE \
     pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text END UNION ALL SELECT 'vacuums', \
     count(*)::text FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";

/// The driver's own connection.
pub(crate) type Lines = kvmark_driver_server::framed::Lines<Settings>;

/// The rows of statements.
pub(crate) fn query(lines: &Lines, sql: &str) -> Result<Rows, Failure> {
    let mut request = Vec::new();
    put(&mut request, b'Q', &[sql.as_bytes(), b"\0"]);
    rows(&lines.send(lines.first(), &request)?)
}

/// The text of this number, prepared by the server.
pub(crate) fn describe_text(lines: &Lines, number: usize, sql: String) -> Result<Text, Failure> {
    let mut request = Vec::new();
    put_parse(&mut request, "", &sql);
    put(&mut request, b'D', &[b"S\0"]);
    request.extend_from_slice(SYNC);
    Text::new(number, sql, &lines.send(lines.first(), &request)?)
}

/// The column `value` of a query's rows, by the column `name`.
fn pairs(lines: &Lines, sql: &str) -> Result<Counters, Failure> {
    let text = |row: &Map<String, Value>, name| row[name].as_str().map(str::to_owned);
    let rows = query(lines, sql)?;
    Ok(rows.iter().filter_map(|row| Some((text(row, "name")?, text(row, "value")?))).collect())
}

/// A server with PostgreSQL's protocol, prepared for a layout.
pub struct PostgresStore {
    /// The settings with the preparation of the sessions' connections.
    pub(crate) settings: Arc<Settings>,
    pub(crate) prepared: Arc<Prepared>,
    /// Whether the table is lost in a crash.
    pub(crate) is_lost: bool,
}

impl Store for PostgresStore {
    type Protocol = Settings;
    type Operation = PostgresOperation;
    type Route = Never;

    const ABOUT: About = About {
        path: Some("database"),
        port: Some(PORT),
        counts_whole_server: true,
        ycsb_bindings: &["jdbc", "site.ycsb.db.JdbcDBClient"],
        ycsb_properties: &["db.", "jdbc."],
        ..About::new(
            "postgres",
            Place::Hosts,
            &[
                Scheme::new("postgres", "postgres://user@host:5432/database"),
                Scheme::new("postgresql", "postgresql://user@host:5432/database"),
            ],
        )
    };
    const NUMBERS: &'static str = "blks_hit blks_read conflicts deadlocks numbackends temp_bytes \
        temp_files tup_deleted tup_fetched tup_inserted tup_returned tup_updated wal_bytes \
        xact_commit xact_rollback";
    const BUSY: &'static [&'static str] = &["vacuums"];

    /// Creates YCSB's table if it is missing; rejects one that doesn't fit.
    fn open(lines: &Lines, layout: &Layout) -> Result<Self, OpenError> {
        query(lines, "").map_err(|failure| failure.at(lines.first()))?;
        prepare(lines, layout)
    }

    fn describe(&self, lines: &Lines) -> Description {
        let version = query(lines, "SHOW server_version").unwrap_or_default();
        let version = version.first().and_then(|row| row["server_version"].as_str());
        let version = version.and_then(|text| text.split(' ').next()).unwrap_or("unknown");
        let mut configuration = pairs(lines, SETTINGS).unwrap_or_default();
        if let Some(durability) = durability(&configuration, self.is_lost) {
            configuration.insert("durability".to_owned(), durability.to_string());
        }
        let system = "PostgreSQL".to_owned();
        Description { system, version: version.to_owned(), configuration }
    }

    fn session(&self, _: &Lines, clients: u32) -> Result<SessionOf<Self>, OpenError> {
        RequestReplySession::open(&self.settings, Arc::clone(&self.prepared), clients)
    }

    fn counters(&self, lines: &Lines, _: &Target) -> Result<Counters, Failure> {
        pairs(lines, STATISTICS)
    }

    /// A query, and its rows as texts by column.
    fn ask(lines: &Lines, words: &[String]) -> Result<Value, OpenError> {
        let rows = query(lines, &words.join(" "));
        let rows = rows.map_err(|failure| failure.at(lines.first()))?;
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
fn durability(settings: &Counters, is_lost: bool) -> Option<Durability> {
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
        assert_eq!(durability(&Counters::new(), false), None);
    }
}
