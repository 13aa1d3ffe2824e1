//! The console of a node: a statement, and its rows by column name. The statement is sent to this
//! node, not to another one of the cluster.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::Lines;
use scylla::deserialize::row::ColumnIterator;
use scylla::deserialize::value::DeserializeValue as _;
use scylla::value::CqlValue;
use scylla_cql::frame::response::result::{Result as Answer, deserialize_with_features};
use scylla_cql_core::frame::protocol_features::ProtocolFeatures;
use serde_json::{Map, Value};

use crate::failure::{Failure, impossible, refused_at};
use crate::settings::Settings;
use crate::wire::Wire;

/// A connection to the first configured node.
pub(crate) struct Console {
    wire: Arc<Wire>,
    lines: Lines<Wire>,
}

impl Console {
    pub(crate) fn new(settings: Settings) -> Result<Self, OpenError> {
        let wire = Arc::new(Wire { settings: Arc::new(settings), keyspace: None });
        Ok(Self { lines: Lines::new(Arc::clone(&wire)), wire })
    }

    fn rows(&self, statement: &str) -> Result<Value, Failure> {
        let wire = &self.wire;
        let send = |stream: &mut _, _: &[u8]| wire.query(stream, statement, wire.settings.read);
        rows(self.lines.ask(&self.place()?, &[], send)?)
    }

    fn place(&self) -> Result<SocketAddr, Failure> {
        let node = self.wire.settings.address.nodes.first().expect("an address names at least one");
        let found = (node.host.as_str(), node.port).to_socket_addrs();
        let mut found = found.map_err(|error| Failure::unreachable(&error))?;
        found.next().ok_or_else(|| Failure::unreachable(&std::io::ErrorKind::NotFound.into()))
    }
}

impl kvmark_driver::Console for Console {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let hosts = self.wire.settings.address.hosts();
        self.rows(&words.join(" ")).map_err(|failure| refused_at(&hosts[..1], failure))
    }
}

/// The rows of a result; empty for other results.
fn rows(body: Vec<u8>) -> Result<Value, Failure> {
    // This bounds nested types, which the decoder below doesn't.
    crate::rows::read(&body)?;
    let answer = deserialize_with_features(body.into(), None, &ProtocolFeatures::default());
    let Answer::Rows((rows, _)) = answer.map_err(impossible)? else {
        return Ok(Value::Array(Vec::new()));
    };
    let rows = rows.deserialize_metadata().map_err(impossible)?;
    let read = |row: Result<ColumnIterator<'_, '_>, _>| {
        let mut named = Map::new();
        for column in row.map_err(impossible)? {
            let column = column.map_err(impossible)?;
            let value = Option::<CqlValue>::deserialize(column.spec.typ(), column.slice);
            let value = value.map_err(impossible)?;
            named.insert(column.spec.name().to_owned(), value.map_or(Value::Null, plain));
        }
        Ok(Value::Object(named))
    };
    rows.rows_iter().map_err(impossible)?.map(read).collect()
}

/// Converts text, integers, booleans and lists; other values become their CQL text.
fn plain(value: CqlValue) -> Value {
    match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => text.into(),
        CqlValue::Boolean(truth) => truth.into(),
        CqlValue::Int(number) => number.into(),
        CqlValue::BigInt(number) => number.into(),
        CqlValue::Inet(address) => address.to_string().into(),
        CqlValue::List(values) | CqlValue::Set(values) => values.into_iter().map(plain).collect(),
        other => other.to_string().into(),
    }
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
        assert_eq!(rows(body).unwrap(), expected);
    }

    #[test]
    fn a_result_without_rows_is_empty_and_a_truncated_one_is_rejected() {
        assert_eq!(rows(1_u32.to_be_bytes().to_vec()).unwrap(), json!([]));
        let body = result(&[(&[13], Some(b"5.0.9"))]);
        assert!((0..body.len()).all(|end| rows(body[..end].to_vec()).is_err()));
    }
}
