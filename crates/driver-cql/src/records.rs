//! YCSB's layout of a record: one row under its key, one column per field.
//!
//! Source: YCSB 0.17.0, `CassandraCQLClient`: the column `y_id` is the key, an insert is an INSERT,
//! an update an UPDATE, and a scan begins at the token of the start key. A delete of a missing row
//! succeeds, because the cluster doesn't report it.

use kvmark_driver::{Columns, Request};
use kvmark_plan::{Kind, Outcome};
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::frame::response::result::ColumnSpec;
use scylla::statement::prepared::PreparedStatement;

use crate::failure::Failure;
use crate::frame::put_long;
use crate::text;

/// The column of the key.
pub(crate) const KEY: &str = "y_id";

/// A quoted name.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value per set of fields that can be requested.
#[derive(Debug)]
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

/// The use of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Scan,
    Write,
}

/// The numbers of the texts of all operations on records.
#[derive(Debug)]
pub(crate) struct Records {
    reads: PerColumns<u32>,
    scans: PerColumns<u32>,
    insert: u32,
    update: u32,
    update_one: Vec<u32>,
    delete: u32,
}

/// The table of records.
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

    /// The statement that creates the table as in YCSB's documentation, with the user's options.
    pub(crate) fn create(&self, options: Option<&str>) -> String {
        let field = |name: &String| format!(", {} varchar", quoted(name));
        let fields: String = self.field_names.iter().map(field).collect();
        let with = options.map(|text| format!(" WITH {text}")).unwrap_or_default();
        let path = self.path();
        format!("CREATE TABLE IF NOT EXISTS {path} ({KEY} varchar PRIMARY KEY{fields}){with}")
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
    /// Prepares every text; `add` returns its number.
    pub(crate) async fn prepare(
        session: &Session,
        table: &Table,
        add: &mut impl FnMut(&PreparedStatement, Use, text::Result) -> u32,
    ) -> Result<Self, PrepareError> {
        let one = format!("{KEY} = ?");
        let from = format!("token({KEY}) >= token(?) LIMIT ?");
        let reads = selects(session, table, &one, Use::Read, add).await?;
        let scans = selects(session, table, &from, Use::Scan, add).await?;
        let mut write = async |cql: String| {
            let prepared = session.prepare(cql).await?;
            Ok::<_, PrepareError>(add(&prepared, Use::Write, text::Result::Nothing))
        };
        let mut update_one = Vec::with_capacity(table.field_names.len());
        for name in &table.field_names {
            update_one.push(write(table.update(std::slice::from_ref(name))).await?);
        }
        Ok(Self {
            reads,
            scans,
            insert: write(table.insert()).await?,
            update: write(table.update(&table.field_names)).await?,
            update_one,
            delete: write(format!("DELETE FROM {} WHERE {KEY} = ?", table.path())).await?,
        })
    }

    /// The text of a request.
    #[inline]
    pub(crate) fn text(&self, request: &Request<'_>) -> Result<u32, Failure> {
        let count = request.values.places.len();
        match request.kind {
            Kind::Read => Ok(*self.reads.get(request.columns)),
            Kind::Scan => Ok(*self.scans.get(request.columns)),
            Kind::Delete => Ok(self.delete),
            Kind::Insert if count == self.update_one.len() => Ok(self.insert),
            Kind::Update if count == self.update_one.len() => Ok(self.update),
            Kind::Update if count == 1 => Ok(self.update_one[request.values.places[0].0 as usize]),
            Kind::ReadModifyWrite => {
                let text = "a read-modify-write is executed as a read and an update";
                Err(Failure::new(Outcome::Refused, text))
            }
            Kind::Insert | Kind::Update => {
                let text = format!("a write of {count} fields isn't supported: write one or all");
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }
}

/// Writes the bound values of a request in the order of its text. All columns store text or bytes.
#[inline]
pub(crate) fn bind(request: &Request<'_>, output: &mut Vec<u8>) {
    if request.kind != Kind::Update {
        put_long(output, request.key);
    }
    match request.kind {
        Kind::Scan => {
            let length = i32::try_from(request.scan_length).unwrap_or(i32::MAX);
            put_long(output, &length.to_be_bytes());
        }
        Kind::Insert | Kind::Update => {
            request.values.iter().for_each(|(_, value)| put_long(output, value));
        }
        Kind::Read | Kind::Delete | Kind::ReadModifyWrite => {}
    }
    if request.kind == Kind::Update {
        put_long(output, request.key);
    }
}

async fn selects(
    session: &Session,
    table: &Table,
    tail: &str,
    purpose: Use,
    add: &mut impl FnMut(&PreparedStatement, Use, text::Result) -> u32,
) -> Result<PerColumns<u32>, PrepareError> {
    let names: Vec<_> = table.field_names.iter().map(|name| quoted(name)).collect();
    let mut select = async |fields: &str| {
        let prepared = session.prepare(table.select(fields, tail)).await?;
        let field = |column: &ColumnSpec<'_>| {
            let index = table.field_names.iter().position(|name| name == column.name())?;
            u32::try_from(index).ok()
        };
        let columns = prepared.get_current_result_set_col_specs();
        let fields = columns.get().iter().map(field).collect();
        Ok::<_, PrepareError>(add(&prepared, purpose, text::Result::Fields(fields)))
    };
    let mut one = Vec::with_capacity(names.len());
    for name in &names {
        one.push(select(name).await?);
    }
    Ok(PerColumns { all: select("*").await?, by_name: select(&names.join(", ")).await?, one })
}

#[cfg(test)]
mod tests {
    use kvmark_driver::Values;

    use super::*;

    #[test]
    fn statements_equal_those_of_ycsb() {
        let table = Table {
            keyspace: "ycsb".to_owned(),
            name: "usertable".to_owned(),
            field_names: vec!["field0".to_owned(), "field1".to_owned()],
        };
        let path = "\"ycsb\".\"usertable\"";
        assert_eq!(
            table.create(None),
            format!(
                "CREATE TABLE IF NOT EXISTS {path} (y_id varchar PRIMARY KEY, \"field0\" varchar, \
                 \"field1\" varchar)"
            )
        );
        let with = table.create(Some("gc_grace_seconds = 0"));
        assert_eq!(with, table.create(None) + " WITH gc_grace_seconds = 0");
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
        let bound = |kind| {
            let mut bytes = Vec::new();
            bind(&Request { values, ..kvmark_testing::request(kind, "k") }, &mut bytes);
            bytes
        };
        assert_eq!(bound(Kind::Insert), b"\0\0\0\x01k\0\0\0\x01x\0\0\0\x02yz");
        assert_eq!(bound(Kind::Update), b"\0\0\0\x01x\0\0\0\x02yz\0\0\0\x01k");
    }
}
