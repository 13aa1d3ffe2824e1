//! YCSB's layout of a record: one row under its key, one column per field.
//!
//! Source: YCSB 0.17.0, `CassandraCQLClient`: the column `y_id` is the key, an insert is an INSERT,
//! an update an UPDATE, and a scan begins at the token of the start key. A delete of a missing row
//! succeeds, because the cluster doesn't report it.

use kvmark_driver::{Columns, Request};
use kvmark_plan::{Kind, Outcome};

use crate::failure::Failure;
use crate::frame::put_long;
use crate::rows::preparation;
use crate::schema::Setup;
use crate::settings::Settings;
use crate::text::{RowUse, Terms, Text};
use kvmark_wire::cql::types::Column;

/// The column of the key.
pub(crate) const KEY: &str = "y_id";

/// A quoted name.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The use of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Scan,
    Write,
}

/// The numbers of the texts of all operations on records.
#[derive(Debug)]
pub(crate) struct Records {
    /// By [`selection`].
    reads: Vec<u32>,
    scans: Vec<u32>,
    insert: u32,
    update: u32,
    update_one: Vec<u32>,
    delete: u32,
}

/// The place of a selection of columns.
const fn selection(columns: Columns) -> usize {
    match columns {
        Columns::All => 0,
        Columns::AllByName => 1,
        Columns::One(field) => field as usize + 2,
    }
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

    /// A statement that can be prepared once the node knows the table.
    pub(crate) fn probe(&self) -> String {
        format!("SELECT {KEY} FROM {}", self.path())
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
    /// Prepares every text and appends it to `texts`.
    pub(crate) fn prepare(
        setup: &Setup<'_>,
        table: &Table,
        texts: &mut Vec<Text>,
    ) -> Result<Self, Failure> {
        let mut add = |cql: String, purpose: Use| {
            let body = setup.prepare(&cql)?;
            texts.push(text_of(cql, &body, table, setup.settings, purpose)?);
            Ok::<_, Failure>((texts.len() - 1) as u32)
        };
        let names: Vec<_> = table.field_names.iter().map(|name| quoted(name)).collect();
        let (mut reads, mut scans, mut update_one) = (Vec::new(), Vec::new(), Vec::new());
        for fields in [vec!["*".to_owned(), names.join(", ")], names].concat() {
            let one = format!("{KEY} = ?");
            reads.push(add(table.select(&fields, &one), Use::Read)?);
            let from = format!("token({KEY}) >= token(?) LIMIT ?");
            scans.push(add(table.select(&fields, &from), Use::Scan)?);
        }
        for name in &table.field_names {
            update_one.push(add(table.update(std::slice::from_ref(name)), Use::Write)?);
        }
        let delete = format!("DELETE FROM {} WHERE {KEY} = ?", table.path());
        Ok(Self {
            reads,
            scans,
            insert: add(table.insert(), Use::Write)?,
            update: add(table.update(&table.field_names), Use::Write)?,
            update_one,
            delete: add(delete, Use::Write)?,
        })
    }

    /// The text of a request.
    #[inline]
    pub(crate) fn text(&self, request: &Request<'_>) -> Result<u32, Failure> {
        let count = request.values.places.len();
        match request.kind {
            Kind::Read => Ok(self.reads[selection(request.columns)]),
            Kind::Scan => Ok(self.scans[selection(request.columns)]),
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

fn text_of(
    cql: String,
    body: &[u8],
    table: &Table,
    settings: &Settings,
    purpose: Use,
) -> Result<Text, Failure> {
    let preparation = preparation(body)?;
    let field = |column: &Column<'_>| {
        let index = table.field_names.iter().position(|name| name.as_bytes() == column.name)?;
        u32::try_from(index).ok()
    };
    let (consistency, row_use) = match purpose {
        Use::Write => (settings.write, RowUse::Nothing),
        _ => (settings.read, RowUse::Fields(preparation.columns.iter().map(field).collect())),
    };
    let terms = Terms { consistency, serial: settings.serial, timestamp: None, idempotent: true };
    let page_size = (purpose == Use::Scan).then_some(settings.page_size);
    Ok(Text::new(cql, preparation, terms, page_size, row_use))
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
