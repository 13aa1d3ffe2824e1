//! The required keyspace and table, and the statements that are prepared for them.
//!
//! Without user statements, a missing keyspace and table of YCSB are created, and an existing table
//! must fit. With user statements, only a configured keyspace is created; the workload's
//! preparation creates everything else, and operations on records use YCSB's table if it exists and
//! fits.

use kvmark_driver::{Layout, OpenError};
use scylla::client::session::Session;
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::statement::{Consistency, Statement as Query};

use crate::failure::{Failure, failure_of, impossible};
use crate::prepared::Prepared;
use crate::records::{KEY, Records, Table, quoted};
use crate::settings::Settings;
use crate::statement::UserStatement;

/// Types of columns that store a key or a value without conversion.
const PLAIN: [&str; 4] = ["text", "varchar", "ascii", "blob"];

/// The opening of a cluster for a workload.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) session: &'a Session,
    pub(crate) settings: &'a Settings,
    pub(crate) layout: &'a Layout,
}

impl Setup<'_> {
    /// Creates missing parts, sends the workload's preparation and prepares all statements. Each
    /// step waits until all nodes have applied the previous one. Returns the default keyspace, too.
    pub(crate) async fn run(self) -> Result<(Option<String>, Prepared), OpenError> {
        let Self { session, settings, layout } = self;
        let own = !layout.statements.is_empty() || !layout.prepare.is_empty();
        let default = || (!own).then(|| settings.default_keyspace.clone());
        let keyspace = settings.keyspace.clone().or_else(default);
        if let Some(keyspace) = &keyspace {
            self.use_or_create(keyspace).await?;
        }
        for text in &layout.prepare {
            self.send(text).await.map_err(|failure| {
                let start: String = text.trim().chars().take(60).collect();
                OpenError::System(format!("the preparation '{start}' failed: {failure}"))
            })?;
        }
        let keyspace = session.get_keyspace().map(|name| (*name).clone()).or(keyspace);
        let mut prepared = Prepared::default();
        if let Some(keyspace) = keyspace.clone()
            && let Some(table) = self.table(keyspace, own).await?
        {
            let records = Records::prepare(self, &table, &mut prepared.texts).await;
            prepared.records = Some(records.map_err(|error| settings.refused(failure_of(error)))?);
        }
        for statement in &layout.statements {
            let own = UserStatement::prepare(self, statement, &mut prepared.texts).await?;
            prepared.statements.push(own);
        }
        Ok((keyspace, prepared))
    }

    async fn send(self, text: &str) -> Result<(), Failure> {
        self.session.query_unpaged(text, ()).await.map(drop).map_err(failure_of)
    }

    /// Makes a keyspace the session's default, and creates it if it is missing.
    ///
    /// The system tables list a new keyspace before the node knows it, so they can't be asked
    /// whether another engine has created it. `IF NOT EXISTS` waits for that creation.
    async fn use_or_create(self, name: &str) -> Result<(), OpenError> {
        let Self { session, settings, .. } = self;
        if session.use_keyspace(name, true).await.is_ok() {
            return Ok(());
        }
        let (path, map) = (quoted(name), &settings.replication.0);
        let text = format!("CREATE KEYSPACE IF NOT EXISTS {path} WITH REPLICATION = {map}");
        self.send(&text).await.map_err(|failure| {
            settings.refused(format_args!("the keyspace {name} can't be made: {failure}"))
        })?;
        session.use_keyspace(name, true).await.map_err(|error| {
            settings.refused(format_args!("no keyspace {name}: {}", failure_of(error)))
        })
    }

    /// YCSB's table, if it exists and fits. It is created if missing, but not with user statements,
    /// which are the workload's `own`.
    async fn table(self, keyspace: String, own: bool) -> Result<Option<Table>, OpenError> {
        let Self { session, settings, layout } = self;
        let (name, field_names) = (layout.table.clone(), layout.field_names.clone());
        let table = Table { keyspace, name, field_names };
        let columns = columns(session, &table).await;
        let columns = columns.map_err(|failure| settings.refused(failure))?;
        if columns.is_empty() {
            if own {
                return Ok(None);
            }
            let create = table.create(settings.table_options.as_deref());
            self.send(&create).await.map_err(|failure| {
                settings.refused(format_args!("the table {} can't be made: {failure}", table.name))
            })?;
            return Ok(Some(table));
        }
        match difference(&table, &columns) {
            None => Ok(Some(table)),
            Some(_) if own => Ok(None),
            Some(difference) => Err(OpenError::System(format!(
                "the table {}.{} doesn't fit this workload, because {difference}: drop it or name \
                 another keyspace",
                table.keyspace, table.name
            ))),
        }
    }
}

/// The name, the kind and the type of each column.
async fn columns(session: &Session, table: &Table) -> Result<Vec<[String; 3]>, Failure> {
    let query = "SELECT column_name, kind, type FROM system_schema.columns \
                 WHERE keyspace_name = ? AND table_name = ?";
    let rows = texts(session, query, &[&table.keyspace, &table.name]).await?;
    Ok(rows.into_iter().filter_map(|row| row.try_into().ok()).collect())
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

/// Rows of text from a node-local table, read at consistency level ONE.
pub(crate) async fn texts(
    session: &Session,
    query: &str,
    values: &[&str],
) -> Result<Vec<Vec<String>>, Failure> {
    let mut query = Query::new(query);
    query.set_consistency(Consistency::One);
    let answer = session.query_unpaged(query, values).await;
    let rows = rows(answer.map_err(failure_of)?)?;
    let mut texts = Vec::new();
    for row in rows.rows::<ColumnIterator<'_, '_>>().map_err(impossible)? {
        let mut row_texts = Vec::new();
        for column in row.map_err(impossible)? {
            let value = column.map_err(impossible)?.slice;
            let value = value.map(|value| String::from_utf8_lossy(value.as_slice()).into_owned());
            row_texts.push(value.unwrap_or_default());
        }
        texts.push(row_texts);
    }
    Ok(texts)
}

/// The rows of a result.
pub(crate) fn rows(result: QueryResult) -> Result<QueryRowsResult, Failure> {
    result.into_rows_result().map_err(impossible)
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
