//! The console of a node: a statement, and its rows by column name. The statement is sent to this
//! node, not to another one of the cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::Lines;
use kvmark_driver_server::timers::Deadline;
use serde_json::{Map, Value};

use crate::decode::{inet, number};
use crate::failure::{Failure, refused_at};
use crate::frame::Reader;
use crate::rows::table;
use crate::settings::Settings;
use crate::wire::Wire;
use kvmark_wire::cql::types::{ColumnType, NativeType};

/// A connection to the first configured node.
pub(crate) struct Console(Lines<Wire>);

impl Console {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Lines::new(Wire::new(&Arc::new(settings), None)))
    }

    fn rows(&self, statement: &str) -> Result<Value, Failure> {
        let wire = &self.0.protocol;
        let body = self.0.ask(&self.place()?.into(), &[], |stream, _| {
            wire.query(stream, statement, &[], wire.settings.read)
        })?;
        rows(&body)
    }

    fn place(&self) -> Result<SocketAddr, Failure> {
        let Wire { settings, limit, .. } = &*self.0.protocol;
        let node = settings.address.nodes.first().expect("an address names at least one");
        let found = node.resolve(Deadline::after(*limit));
        let found = found.map_err(|error| Failure::unreachable(&error))?;
        let first = found.first().copied();
        first.ok_or_else(|| Failure::unreachable(&std::io::ErrorKind::NotFound.into()))
    }
}

impl kvmark_driver::Console for Console {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let hosts = self.0.protocol.settings.address.hosts();
        self.rows(&words.join(" ")).map_err(|failure| refused_at(&hosts[..1], failure))
    }
}

/// The rows of a result; empty for other results.
fn rows(body: &[u8]) -> Result<Value, Failure> {
    let (columns, rows) = table(body)?;
    let read = |row: Vec<Option<Vec<u8>>>| {
        let named = columns.iter().zip(row).map(|(column, value)| {
            let name = String::from_utf8_lossy(column.name).into_owned();
            (name, plain(&column.typ, value.as_deref()))
        });
        Value::Object(named.collect::<Map<_, _>>())
    };
    Ok(rows.into_iter().map(read).collect())
}

/// Converts text, whole numbers, booleans, UUIDs, addresses, lists and sets; other values become
/// hexadecimal digits.
fn plain(column: &ColumnType, value: Option<&[u8]>) -> Value {
    let Some(value) = value else { return Value::Null };
    let digits = || value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let converted = match column {
        ColumnType::Native(native) => match native {
            NativeType::Text | NativeType::Ascii => Some(String::from_utf8_lossy(value).into()),
            NativeType::Boolean => Some((value == [1]).into()),
            NativeType::Inet => inet(value).map(|address| address.to_string().into()),
            NativeType::Uuid | NativeType::Timeuuid if value.len() == 16 => {
                let mut text = digits();
                [20, 16, 12, 8].into_iter().for_each(|place| text.insert(place, '-'));
                Some(text.into())
            }
            _ => number(*native, value).and_then(|n| i64::try_from(n).ok()).map(Value::from),
        },
        ColumnType::List(of) | ColumnType::Set(of) => {
            Some(Reader(value).elements().map(|value| plain(of, value)).collect())
        }
        _ => None,
    };
    converted.unwrap_or_else(|| format!("0x{}", digits()).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::frame::{put_long, put_short};

    /// A result of one row: the identifiers of its columns' types, and their values.
    fn result(columns: &[(&[u16], Option<&[u8]>)]) -> Vec<u8> {
        let mut body = [2_u32, 1, columns.len() as u32].map(u32::to_be_bytes).concat();
        put_short(&mut body, b"ks");
        put_short(&mut body, b"t");
        for (index, (typ, _)) in columns.iter().enumerate() {
            put_short(&mut body, format!("c{index}").as_bytes());
            typ.iter().for_each(|id| body.extend_from_slice(&id.to_be_bytes()));
        }
        body.extend_from_slice(&1_u32.to_be_bytes());
        for (_, value) in columns {
            match value {
                Some(value) => put_long(&mut body, value),
                None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        body
    }

    #[test]
    fn a_row_has_values_of_all_kinds_by_name() {
        let list: &[u8] = &[0, 0, 0, 1, 0, 0, 0, 1, b'x'];
        let body = result(&[
            (&[13], Some(b"5.0.9")),
            (&[9], Some(&[0xff; 4])),
            (&[4], Some(&[1])),
            (&[16], Some(&[127, 0, 0, 2])),
            (&[12], Some(&[0; 16])),
            (&[34, 13], Some(list)),
            (&[3], Some(&[1, 2])),
            (&[13], None),
        ]);
        let uuid = "00000000-0000-0000-0000-000000000000";
        let expected = json!([{
            "c0": "5.0.9", "c1": -1, "c2": true, "c3": "127.0.0.2", "c4": uuid, "c5": ["x"],
            "c6": "0x0102", "c7": null,
        }]);
        assert_eq!(rows(&body).unwrap(), expected);
    }

    #[test]
    fn a_result_without_rows_is_empty_and_a_truncated_one_is_rejected() {
        assert_eq!(rows(&1_u32.to_be_bytes()).unwrap(), json!([]));
        let body = result(&[(&[13], Some(b"5.0.9"))]);
        assert!((0..body.len()).all(|end| rows(&body[..end]).is_err()));
    }
}
