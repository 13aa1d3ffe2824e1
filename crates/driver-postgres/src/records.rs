//! YCSB's layout of a record: one row under its key, one column per field.
//!
//! Source: YCSB 0.17.0, JDBC binding: the columns are `YCSB_KEY` and the fields, which PostgreSQL
//! folds to lower case, and a scan is ordered by the key. A table that is created here has keys in
//! the order of their bytes and fields of bytes, so that every value fits and no locale orders the
//! keys; YCSB's own, of text, is used as well. An insert replaces an existing row, so that a load
//! can be repeated.

use kvmark_driver::{Columns, Layout, Request};
use kvmark_plan::ValueType::Integer;
use kvmark_plan::{Kind, Outcome};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::text::{put_argument, put_value};

/// The column of the key.
const KEY: &str = "ycsb_key";
/// Types of columns that store a value without conversion.
const PLAIN: [&str; 3] = ["text", "character varying", "bytea"];
/// The comment of a table that is created here.
const COMMENT: &str = "made by kvmark, which may drop it with all rows";

/// A quoted name.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The operations on a table, whose texts are the first prepared ones: for all fields, then for
/// each, a read, a scan and an update; then the insert and the delete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    fields: u32,
}

impl Records {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { fields: layout.field_names.len() as u32 }
    }

    /// The number of the text for a request.
    #[inline]
    pub(crate) fn text(self, request: &Request<'_>) -> Result<u32, Failure> {
        let selections = self.fields + 1;
        let selection = match request.columns {
            Columns::All | Columns::AllByName => 0,
            Columns::One(field) => field + 1,
        };
        let places = request.values.places;
        match request.kind {
            Kind::Read => Ok(selection),
            Kind::Scan => Ok(selections + selection),
            Kind::Update if places.len() == self.fields as usize => Ok(2 * selections),
            Kind::Update if places.len() == 1 => Ok(2 * selections + 1 + places[0].0),
            Kind::Insert if places.len() == self.fields as usize => Ok(3 * selections),
            Kind::Delete => Ok(3 * selections + 1),
            Kind::Insert | Kind::Update | Kind::ReadModifyWrite => {
                let text = format!("a write of {} fields isn't supported", places.len());
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }
}

/// Appends the values of a request in the order of its text: the key comes first.
#[inline]
pub(crate) fn put_values(output: &mut Vec<u8>, request: &Request<'_>) {
    put_value(output, request.key);
    match request.kind {
        Kind::Scan => put_argument(output, 0, Integer, &request.scan_length.to_le_bytes()),
        Kind::Insert | Kind::Update => {
            request.values.iter().for_each(|(_, value)| put_value(output, value));
        }
        Kind::Read | Kind::Delete | Kind::ReadModifyWrite => {}
    }
}

/// The texts of all operations, in the order of [`Records`].
pub(crate) fn texts(layout: &Layout) -> Vec<String> {
    let table = quoted(&layout.table);
    let names: Vec<_> = layout.field_names.iter().map(|name| quoted(name)).collect();
    let all = names.join(", ");
    let selections = || std::iter::once(&all).chain(&names);
    let set = |names: &[String]| {
        let set = (2..).zip(names).map(|(number, name)| format!("{name} = ${number}"));
        set.collect::<Vec<_>>().join(", ")
    };
    let update = |set: String| format!("UPDATE {table} SET {set} WHERE {KEY} = $1");
    let mut texts = Vec::new();
    texts.extend(selections().map(|one| format!("SELECT {one} FROM {table} WHERE {KEY} = $1")));
    texts.extend(
        selections().map(|one| {
            format!("SELECT {one} FROM {table} WHERE {KEY} >= $1 ORDER BY {KEY} LIMIT $2")
        }),
    );
    texts.push(update(set(&names)));
    texts.extend(names.iter().map(|name| update(set(std::slice::from_ref(name)))));
    let markers: String = (0..names.len()).map(|index| format!(", ${}", index + 2)).collect();
    texts.push(format!(
        "INSERT INTO {table} ({KEY}, {all}) VALUES ($1{markers}) ON CONFLICT ({KEY}) DO UPDATE \
         SET {}",
        set(&names)
    ));
    texts.push(format!("DELETE FROM {table} WHERE {KEY} = $1"));
    texts
}

/// The statements that create the table.
pub(crate) fn creation(layout: &Layout) -> String {
    let field = |name: &String| format!(", {} bytea", quoted(name));
    let fields: String = layout.field_names.iter().map(field).collect();
    let table = quoted(&layout.table);
    format!(
        "CREATE TABLE IF NOT EXISTS {table} ({KEY} text COLLATE \"C\" PRIMARY KEY{fields}); \
         COMMENT ON TABLE {table} IS '{COMMENT}'"
    )
}

/// The query for the table's columns: name, type, whether it is the primary key, and whether the
/// table's rows are lost in a crash.
pub(crate) fn columns_query(layout: &Layout) -> String {
    let table = quoted(&layout.table).replace('\'', "''");
    format!(
        "SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type, \
         coalesce(i.indkey::text = a.attnum::text, false) AS is_key, \
         c.relpersistence <> 'p' AS is_lost FROM pg_class c \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
         WHERE c.oid = to_regclass('{table}')"
    )
}

/// The first difference between a table with these columns and YCSB's.
pub(crate) fn difference(layout: &Layout, columns: &[Map<String, Value>]) -> Option<String> {
    let text = |column: &Map<String, Value>, name: &str| column[name].as_str().map(str::to_owned);
    let find = |name: &str| columns.iter().find(|column| column["name"] == name);
    if find(KEY).is_none_or(|column| column["is_key"] != "t") {
        return Some(format!("its primary key isn't {KEY}"));
    }
    for name in layout.field_names.iter().map(String::as_str).chain([KEY]) {
        let Some(column) = find(name) else { return Some(format!("it has no column {name}")) };
        let kind = text(column, "type").unwrap_or_default();
        if !PLAIN.contains(&kind.as_str()) {
            return Some(format!("its column {name} is of type {kind}, not text or bytea"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use kvmark_driver::Values;
    use kvmark_testing::{layout, request};

    use super::*;

    #[test]
    fn a_request_has_its_text() {
        let texts = texts(&layout(2));
        let records = Records::new(&layout(2));
        let values = |places| Values { bytes: b"ab", places };
        let (one, all): (&[_], &[_]) = (&[(1, 0..1)], &[(0, 0..1), (1, 1..2)]);
        let cases = [
            (Kind::Read, Columns::All, one, "SELECT \"field0\", \"field1\" FROM"),
            (Kind::Read, Columns::One(1), one, "SELECT \"field1\" FROM"),
            (
                Kind::Scan,
                Columns::One(0),
                one,
                "SELECT \"field0\" FROM \"usertable\" WHERE ycsb_key >=",
            ),
            (Kind::Update, Columns::All, one, "UPDATE \"usertable\" SET \"field1\" = $2 WHERE"),
            (
                Kind::Update,
                Columns::All,
                all,
                "UPDATE \"usertable\" SET \"field0\" = $2, \"field1\" = $3",
            ),
            (
                Kind::Insert,
                Columns::All,
                all,
                "INSERT INTO \"usertable\" (ycsb_key, \"field0\", \"field1\") VALUES ($1, $2, $3)",
            ),
            (Kind::Delete, Columns::All, one, "DELETE FROM \"usertable\" WHERE ycsb_key = $1"),
        ];
        for (kind, columns, places, start) in cases {
            let request = Request { columns, values: values(places), ..request(kind, "k") };
            let text = &texts[records.text(&request).unwrap() as usize];
            assert!(text.starts_with(start), "{text}");
        }
        let insert = Request { values: values(one), ..request(Kind::Insert, "k") };
        assert!(records.text(&insert).is_err());
    }

    #[test]
    fn a_table_fits_or_the_difference_is_named() {
        let columns = |columns: &[(&str, &str, &str)]| -> Vec<Map<String, Value>> {
            let column = |(name, kind, is_key): &(&str, &str, &str)| {
                let pairs = [("name", name), ("type", kind), ("is_key", is_key)];
                pairs.map(|(name, value)| (name.to_owned(), (*value).into())).into_iter().collect()
            };
            columns.iter().map(column).collect()
        };
        let key = ("ycsb_key", "character varying", "t");
        let [one, two] = ["field0", "field1"].map(|name| (name, "bytea", "f"));
        let of = |all: &[_]| difference(&layout(2), &columns(all));
        assert_eq!(of(&[key, one, two, ("more", "integer", "f")]), None);
        assert_eq!(
            of(&[("ycsb_key", "text", "f"), one, two]).unwrap(),
            "its primary key isn't ycsb_key"
        );
        assert_eq!(of(&[key, one]).unwrap(), "it has no column field1");
        let wrong = of(&[key, one, ("field1", "integer", "f")]).unwrap();
        assert_eq!(wrong, "its column field1 is of type integer, not text or bytea");
    }
}
