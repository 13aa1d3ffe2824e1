//! The required keyspace and table, and the statements that are prepared for them.
//!
//! Without user statements, a missing keyspace and table of YCSB are created, and an existing table
//! must fit. With user statements, only a configured keyspace is created; the workload's
//! preparation creates everything else, and operations on records use YCSB's table if it exists and
//! fits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver::{Layout, OpenError};
use kvmark_driver_server::framed::Lines;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::frame::Reader;
use crate::prepared::Prepared;
use crate::records::{KEY, Records, Table, quoted};
use crate::rows::{Row, text};
use crate::settings::Settings;
use crate::statement::UserStatement;
use crate::wire::{Wire, select};

/// Types of columns that store a key or a value without conversion.
const PLAIN: [&str; 4] = ["text", "varchar", "ascii", "blob"];

/// Limit on a statement that changes the cluster.
const LIMIT: Duration = Duration::from_secs(3600);

/// Kinds of results.
const SET_KEYSPACE: i32 = 3;
const SCHEMA_CHANGE: i32 = 5;

/// The opening of a cluster for a workload.
pub(crate) struct Setup<'a> {
    pub(crate) settings: &'a Settings,
    cluster: &'a Cluster,
    layout: &'a Layout,
    /// The connection to the first node, with the current keyspace.
    lines: Lines<Wire>,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(cluster: &'a Cluster, layout: &'a Layout) -> Self {
        Self { settings: &cluster.settings, cluster, layout, lines: lines(cluster, None) }
    }

    /// Creates missing parts, sends the workload's preparation and prepares all statements. Each
    /// step waits until all nodes have applied the previous one. Returns the default keyspace, too.
    pub(crate) fn run(mut self) -> Result<(Option<String>, Prepared), OpenError> {
        let Self { settings, layout, .. } = self;
        let own = !layout.statements.is_empty() || !layout.prepare.is_empty();
        let default = || (!own).then(|| settings.default_keyspace.clone());
        if let Some(keyspace) = settings.keyspace.clone().or_else(default) {
            self.use_or_create(&keyspace)?;
        }
        for text in &layout.prepare {
            self.send(text).map_err(|failure| {
                let start: String = text.trim().chars().take(60).collect();
                OpenError::System(format!("the preparation '{start}' failed: {failure}"))
            })?;
        }
        let keyspace = self.lines.protocol.keyspace.clone();
        let mut prepared = Prepared::default();
        if let Some(keyspace) = keyspace.clone()
            && let Some(table) = self.table(keyspace, own)?
        {
            let records = Records::prepare(&self, &table, &mut prepared.texts);
            prepared.records = Some(records.map_err(|failure| settings.refused(failure))?);
        }
        for statement in &layout.statements {
            let own = UserStatement::prepare(&self, statement, &mut prepared.texts)?;
            prepared.statements.push(own);
        }
        Ok((keyspace, prepared))
    }

    fn node(&self) -> SocketAddr {
        self.cluster.nodes[0]
    }

    /// Sends a statement of the workload's preparation, or one that creates a part.
    fn send(&mut self, text: &str) -> Result<(), Failure> {
        let wire = &self.lines.protocol;
        let body = self.lines.ask(&self.node().into(), &[], |stream, _| {
            wire.query(stream, text, &[], wire.settings.write)
        })?;
        let mut body = Reader(&body);
        match body.int() {
            Some(SCHEMA_CHANGE) => self.cluster.await_agreement(),
            Some(SET_KEYSPACE) => {
                let name = body.short_bytes().unwrap_or_default();
                self.use_keyspace(&String::from_utf8_lossy(name))
            }
            _ => Ok(()),
        }
    }

    /// The body of the result of preparing a statement.
    pub(crate) fn prepare(&self, cql: &str) -> Result<Vec<u8>, Failure> {
        let wire = &self.lines.protocol;
        self.lines.ask(&self.node().into(), &[], |stream, _| wire.prepare(stream, cql))
    }

    /// Continues with a connection that has this keyspace.
    fn use_keyspace(&mut self, name: &str) -> Result<(), Failure> {
        let lines = lines(self.cluster, Some(name.to_owned()));
        select(&lines, self.node(), "SELECT key FROM system.local", &[])?;
        self.lines = lines;
        Ok(())
    }

    /// Selects a keyspace, and creates it if it is missing.
    ///
    /// The system tables list a new keyspace before the node knows it, so they can't be asked
    /// whether another engine has created it. `IF NOT EXISTS` waits for that creation.
    fn use_or_create(&mut self, name: &str) -> Result<(), OpenError> {
        if self.use_keyspace(name).is_ok() {
            return Ok(());
        }
        let settings = self.settings;
        let (path, map) = (quoted(name), &settings.replication.0);
        let text = format!("CREATE KEYSPACE IF NOT EXISTS {path} WITH REPLICATION = {map}");
        self.send(&text).map_err(|failure| {
            settings.refused(format_args!("the keyspace {name} can't be made: {failure}"))
        })?;
        self.use_keyspace(name)
            .map_err(|failure| settings.refused(format_args!("no keyspace {name}: {failure}")))
    }

    /// YCSB's table, if it exists and fits. It is created if missing, but not with user statements,
    /// which are the workload's `own`.
    fn table(&mut self, keyspace: String, own: bool) -> Result<Option<Table>, OpenError> {
        let Self { settings, layout, .. } = *self;
        let (name, field_names) = (layout.table.clone(), layout.field_names.clone());
        let table = Table { keyspace, name, field_names };
        let columns = self.columns(&table).map_err(|failure| settings.refused(failure))?;
        if columns.is_empty() {
            if own {
                return Ok(None);
            }
            self.create(&table)?;
            return Ok(Some(table));
        }
        match difference(&table, &columns) {
            None if own || self.prepare(&table.probe()).is_ok() => Ok(Some(table)),
            // The system tables list a new table, too, before the node knows it.
            None => self.create(&table).map(|()| Some(table)),
            Some(_) if own => Ok(None),
            Some(difference) => Err(OpenError::System(format!(
                "the table {}.{} doesn't fit this workload, because {difference}: drop it or name \
                 another keyspace",
                table.keyspace, table.name
            ))),
        }
    }

    /// Creates YCSB's table, or waits for its creation by another engine.
    fn create(&mut self, table: &Table) -> Result<(), OpenError> {
        let settings = self.settings;
        let create = table.create(settings.table_options.as_deref());
        let created = self.send(&create).and_then(|()| self.cluster.await_agreement());
        created.map_err(|failure| {
            settings.refused(format_args!("the table {} can't be made: {failure}", table.name))
        })
    }

    /// The name, the kind and the type of each column.
    fn columns(&self, table: &Table) -> Result<Vec<[String; 3]>, Failure> {
        let query = "SELECT column_name, kind, type FROM system_schema.columns \
                     WHERE keyspace_name = ? AND table_name = ?";
        let rows = texts(&self.lines, self.node(), query, &[&table.keyspace, &table.name])?;
        Ok(rows.into_iter().filter_map(|row| row.try_into().ok()).collect())
    }
}

/// Connections to nodes of a cluster for statements that take long.
fn lines(cluster: &Cluster, keyspace: Option<String>) -> Lines<Wire> {
    let settings = Arc::clone(&cluster.settings);
    Lines::new(Arc::new(Wire { settings, keyspace, limit: LIMIT }))
}

/// The first difference between a table and YCSB's.
fn difference(table: &Table, columns: &[[String; 3]]) -> Option<String> {
    let key = columns.iter().filter(|[_, kind, _]| kind == "partition_key" || kind == "clustering");
    let key: Vec<_> = key.map(|[name, ..]| name.as_str()).collect();
    if key != [KEY] {
        return Some(format!("its key is ({}), not ({KEY})", key.join(", ")));
    }
    let missing = |field: &&String| !columns.iter().any(|[name, ..]| name == *field);
    let missing: Vec<_> = table.field_names.iter().filter(missing).map(String::as_str).collect();
    if !missing.is_empty() {
        return Some(format!("it has no column {}", missing.join(", ")));
    }
    let mut columns = columns.iter();
    let [name, _, typ] = columns.find(|[name, _, typ]| {
        (name == KEY || table.field_names.contains(name)) && !PLAIN.contains(&typ.as_str())
    })?;
    Some(format!("its column {name} is of type {typ}, not text"))
}

/// Rows of text from a node-local table.
pub(crate) fn texts(
    lines: &Lines<Wire>,
    node: SocketAddr,
    query: &str,
    values: &[&str],
) -> Result<Vec<Vec<String>>, Failure> {
    let rows = select(lines, node, query, values)?;
    let words = |row: &Row| row.iter().map(|value| text(value.as_deref())).collect();
    Ok(rows.iter().map(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference_of(columns: &[(&str, &str, &str)]) -> Option<String> {
        let table = Table {
            keyspace: "ycsb".to_owned(),
            name: "usertable".to_owned(),
            field_names: vec!["field0".to_owned(), "field1".to_owned()],
        };
        let column =
            |(name, kind, typ): &(&str, &str, &str)| [*name, *kind, *typ].map(str::to_owned);
        difference(&table, &columns.iter().map(column).collect::<Vec<_>>())
    }

    #[test]
    fn a_table_with_the_key_and_all_fields_fits() {
        let key = ("y_id", "partition_key", "text");
        let [one, two] = ["field0", "field1"].map(|name| (name, "regular", "text"));
        let more = ("field2", "regular", "int");
        assert_eq!(difference_of(&[key, one, two, more]), None);
        assert_eq!(difference_of(&[key, one]).unwrap(), "it has no column field1");
    }

    #[test]
    fn another_key_or_type_is_named() {
        let [one, two] = ["field0", "field1"].map(|name| (name, "regular", "text"));
        let other = [("k", "partition_key", "text"), ("c", "clustering", "int"), one, two];
        assert_eq!(difference_of(&other).unwrap(), "its key is (k, c), not (y_id)");
        let number = ("field1", "regular", "int");
        let columns = [("y_id", "partition_key", "text"), one, number];
        assert_eq!(difference_of(&columns).unwrap(), "its column field1 is of type int, not text");
    }
}
