//! YCSB's layout of a record: one row under its key, one column per field.
//!
//! Source: YCSB 0.17.0, `CassandraCQLClient`: the column `y_id` is the key, an insert is an INSERT,
//! an update an UPDATE, and a scan goes on from the token of the start key. A delete of a row that
//! isn't there is done like any other, because the cluster doesn't say.

use kvmark_driver::{Columns, Reply, Request, Values};
use kvmark_plan::{Kind, Outcome};
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::frame::response::result::ColumnSpec;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::{CellOverflowError, RowWriter};
use scylla::statement::prepared::PreparedStatement;

use crate::answer::take_cells;
use crate::failure::Failure;

/// The column of the key.
pub(crate) const KEY: &str = "y_id";

/// A name as CQL takes it whatever its letters are.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A select, and the field of each column of its rows.
pub(crate) struct Select {
    pub(crate) prepared: PreparedStatement,
    fields: Vec<Option<u32>>,
}

/// A statement for each set of fields that may be asked for.
struct PerColumns<T> {
    all: T,
    by_name: T,
    one: Vec<T>,
}

impl<T> PerColumns<T> {
    fn get(&self, columns: Columns) -> &T {
        match columns {
            Columns::All => &self.all,
            Columns::AllByName => &self.by_name,
            Columns::One(field) => &self.one[field as usize],
        }
    }
}

/// The statements of the six kinds, prepared for one session.
pub(crate) struct Records {
    reads: PerColumns<Select>,
    scans: PerColumns<Select>,
    insert: PreparedStatement,
    update: PreparedStatement,
    update_one: Vec<PreparedStatement>,
    delete: PreparedStatement,
}

/// Where the table is and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) field_names: Vec<String>,
}

impl Table {
    fn path(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.name))
    }

    /// Makes the table as YCSB's documentation does.
    pub(crate) fn create(&self) -> String {
        let field = |name: &String| format!(", {} varchar", quoted(name));
        let fields: String = self.field_names.iter().map(field).collect();
        format!("CREATE TABLE IF NOT EXISTS {} ({KEY} varchar PRIMARY KEY{fields})", self.path())
    }

    fn select(&self, fields: &str, tail: &str) -> String {
        format!("SELECT {fields} FROM {} WHERE {tail}", self.path())
    }

    fn update(&self, fields: &[String]) -> String {
        let set: Vec<_> = fields.iter().map(|name| format!("{} = ?", quoted(name))).collect();
        format!("UPDATE {} SET {} WHERE {KEY} = ?", self.path(), set.join(", "))
    }

    fn insert(&self) -> String {
        let names: String =
            self.field_names.iter().map(|name| format!(", {}", quoted(name))).collect();
        let markers = ", ?".repeat(self.field_names.len());
        format!("INSERT INTO {} ({KEY}{names}) VALUES (?{markers})", self.path())
    }
}

impl Records {
    /// Prepares every statement; `ready` gives a read (true) or write its levels and policies.
    pub(crate) async fn prepare(
        session: &Session,
        table: &Table,
        ready: impl Fn(PreparedStatement, bool) -> PreparedStatement,
    ) -> Result<Self, PrepareError> {
        let write =
            async |cql: String| Ok::<_, PrepareError>(ready(session.prepare(cql).await?, false));
        let mut update_one = Vec::with_capacity(table.field_names.len());
        for name in &table.field_names {
            update_one.push(write(table.update(std::slice::from_ref(name))).await?);
        }
        let read = |prepared| ready(prepared, true);
        let one = format!("{KEY} = ?");
        let from = format!("token({KEY}) >= token(?) LIMIT ?");
        Ok(Self {
            reads: selects(session, table, &one, &read).await?,
            scans: selects(session, table, &from, &read).await?,
            insert: write(table.insert()).await?,
            update: write(table.update(&table.field_names)).await?,
            update_one,
            delete: write(format!("DELETE FROM {} WHERE {KEY} = ?", table.path())).await?,
        })
    }

    pub(crate) fn read(&self, columns: Columns) -> &Select {
        self.reads.get(columns)
    }

    pub(crate) fn scan(&self, columns: Columns) -> &Select {
        self.scans.get(columns)
    }

    /// The statement of a write, and its values in the statement's order.
    pub(crate) fn write<'a>(
        &self,
        request: &Request<'a>,
    ) -> Result<(&PreparedStatement, Row<'a>), Failure> {
        let (key, values) = (request.key, request.values);
        let count = values.places.len();
        match request.kind {
            Kind::Delete => Ok((&self.delete, Row { key, values: Values::NONE, key_first: true })),
            Kind::Insert if count == self.update_one.len() => {
                Ok((&self.insert, Row { key, values, key_first: true }))
            }
            Kind::Update if count == self.update_one.len() => {
                Ok((&self.update, Row { key, values, key_first: false }))
            }
            Kind::Update if count == 1 => {
                let field = values.places[0].0 as usize;
                Ok((&self.update_one[field], Row { key, values, key_first: false }))
            }
            _ => {
                let text = format!("a write of {count} fields isn't prepared: write one or all");
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }
}

async fn selects(
    session: &Session,
    table: &Table,
    tail: &str,
    ready: &impl Fn(PreparedStatement) -> PreparedStatement,
) -> Result<PerColumns<Select>, PrepareError> {
    let names: Vec<_> = table.field_names.iter().map(|name| quoted(name)).collect();
    let select = async |fields: &str| {
        let prepared = ready(session.prepare(table.select(fields, tail)).await?);
        let field = |column: &ColumnSpec<'_>| {
            let index = table.field_names.iter().position(|name| name == column.name())?;
            u32::try_from(index).ok()
        };
        let fields = prepared.get_current_result_set_col_specs().get().iter().map(field).collect();
        Ok::<_, PrepareError>(Select { prepared, fields })
    };
    let mut one = Vec::with_capacity(names.len());
    for name in &names {
        one.push(select(name).await?);
    }
    Ok(PerColumns { all: select("*").await?, by_name: select(&names.join(", ")).await?, one })
}

impl Select {
    /// Takes a page of rows.
    pub(crate) fn take(
        &self,
        rows: &QueryRowsResult,
        wants_values: bool,
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        if wants_values {
            let field = |column: usize| self.fields.get(column).copied().flatten();
            let append = |_: &ColumnSpec<'_>, value: &[u8], output: &mut Vec<u8>| {
                output.extend_from_slice(value);
            };
            take_cells(rows, reply, field, append)?;
        }
        reply.rows += rows.rows_num() as u64;
        Ok(())
    }
}

/// A key and values, bound as they come: the table was found to hold text and bytes.
pub(crate) struct Row<'a> {
    key: &'a [u8],
    values: Values<'a>,
    key_first: bool,
}

impl<'a> Row<'a> {
    pub(crate) fn of_key(key: &'a [u8]) -> Self {
        Self { key, values: Values::NONE, key_first: true }
    }
}

impl SerializeRow for Row<'_> {
    #[inline]
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        if self.key_first {
            put(writer, self.key)?;
        }
        for (_, value) in self.values.iter() {
            put(writer, value)?;
        }
        if self.key_first { Ok(()) } else { put(writer, self.key) }
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// The first key of a scan and how many rows it asks for.
pub(crate) struct ScanRow<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) length: u64,
}

impl SerializeRow for ScanRow<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        put(writer, self.key)?;
        put(writer, &i32::try_from(self.length).unwrap_or(i32::MAX).to_be_bytes())
    }

    fn is_empty(&self) -> bool {
        false
    }
}

#[inline]
fn put(writer: &mut RowWriter<'_>, value: &[u8]) -> Result<(), SerializationError> {
    let cell = writer.make_cell_writer();
    cell.set_value(value)
        .map(drop)
        .map_err(|error: CellOverflowError| SerializationError::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_ycsbs() {
        let table = Table {
            keyspace: "ycsb".to_owned(),
            name: "usertable".to_owned(),
            field_names: vec!["field0".to_owned(), "field1".to_owned()],
        };
        let path = "\"ycsb\".\"usertable\"";
        assert_eq!(
            table.create(),
            format!(
                "CREATE TABLE IF NOT EXISTS {path} (y_id varchar PRIMARY KEY, \"field0\" varchar, \
                 \"field1\" varchar)"
            )
        );
        assert_eq!(
            table.insert(),
            format!("INSERT INTO {path} (y_id, \"field0\", \"field1\") VALUES (?, ?, ?)")
        );
        assert_eq!(
            table.update(&table.field_names),
            format!("UPDATE {path} SET \"field0\" = ?, \"field1\" = ? WHERE y_id = ?")
        );
    }

    #[test]
    fn a_row_is_bound_in_its_statements_order() {
        let values = Values { bytes: b"xyz", places: &[(0, 0..1), (1, 1..3)] };
        let bound = |key_first| {
            let mut bytes = Vec::new();
            let row = Row { key: b"k", values, key_first };
            let mut writer = RowWriter::new(&mut bytes);
            row.serialize(&RowSerializationContext::empty(), &mut writer).unwrap();
            bytes
        };
        assert_eq!(bound(true), b"\0\0\0\x01k\0\0\0\x01x\0\0\0\x02yz");
        assert_eq!(bound(false), b"\0\0\0\x01x\0\0\0\x02yz\0\0\0\x01k");
    }
}
