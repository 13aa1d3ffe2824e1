//! The driver's own connection: the table, and information about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Description, OpenError};
use kvmark_driver_server::framed::{Lines, ask};
use kvmark_driver_server::timers::wall_us;
use kvmark_driver_server::{TlsProbe, settle};
use serde_json::{Value, json};

use crate::failure::{Failure, MISSING_TABLE, refused};
use crate::http::Response;
use crate::options::Settings;
use crate::signature::{Requests, VERSION};

const TLS_PROBE: TlsProbe = TlsProbe {
    request: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    without: "use dynamodb:// or leave tls out",
    with: "use dynamodbs:// or give tls=true",
};

/// Sends a request to the first server.
fn send(lines: &Lines<Settings>, action: &str, body: &str) -> Result<Value, Failure> {
    let target = lines.protocol.target();
    let mut request = Vec::new();
    let mut requests = Requests::new(Arc::clone(&lines.protocol), target);
    requests.put(&mut request, action, body.as_bytes(), wall_us());
    lines.ask(target, &request, |stream, request| {
        let frame = ask::<Settings>(stream, request, |_| true)?;
        let Response { status, body, .. } = Response::read(&frame)?.expect("the frame is complete");
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if status == 200 && answer.get("__type").is_none() => Ok(answer),
            Err(_) if status == 200 => Err(Failure::unexpected_reply(action)),
            _ => Err(refused(status, &body)),
        }
    })
}

/// The console of a server: an action of the API and the JSON of its request.
pub(crate) struct Console(pub(crate) Lines<Settings>);

impl kvmark_driver::Console for Console {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let [action, body] = words else {
            let text = "give an action of the API and the JSON of its request";
            return Err(OpenError::System(text.to_owned()));
        };
        send(&self.0, action, body).map_err(|failure| failure.at(self.0.protocol.target()))
    }
}

/// The driver's own connection.
pub(crate) struct Control {
    lines: Lines<Settings>,
    table: String,
}

impl Control {
    /// Connects to the first server, creates the table if it is missing, and waits until it can be
    /// used.
    pub(crate) fn open(settings: Arc<Settings>, table: &str) -> Result<Self, OpenError> {
        let control = Self { lines: Lines::new(settings), table: table.to_owned() };
        let Settings { tls, .. } = &*control.lines.protocol;
        let target = control.lines.protocol.target();
        let table = control
            .table()
            .map_err(|failure| TLS_PROBE.explain(failure, target, tls.is_some()).at(target))?;
        match table {
            Some(table) => control.check(&table)?,
            None => control.create().map_err(|failure| failure.at(target))?,
        }
        settle(target, || {
            let table = control.table()?;
            Ok(table.is_none_or(|table| table["TableStatus"] != "ACTIVE"))
        })?;
        Ok(control)
    }

    /// The description of the table, unless it is missing.
    fn table(&self) -> Result<Option<Value>, Failure> {
        let body = json!({ "TableName": self.table }).to_string();
        match send(&self.lines, "DescribeTable", &body) {
            Ok(mut answer) => Ok(Some(answer["Table"].take())),
            Err(failure) if failure.text.contains(MISSING_TABLE) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The key of the table, by the names of its attributes.
    fn key(&self) -> Value {
        let Settings { primary_key, partition, .. } = &*self.lines.protocol;
        let part = |name, role| json!({ "AttributeName": name, "KeyType": role });
        match partition {
            None => json!([part(primary_key, "HASH")]),
            Some((name, _)) => json!([part(name, "HASH"), part(primary_key, "RANGE")]),
        }
    }

    fn create(&self) -> Result<(), Failure> {
        let key = self.key();
        let names = key.as_array().into_iter().flatten().map(|part| &part["AttributeName"]);
        let types = names.map(|name| json!({ "AttributeName": name, "AttributeType": "S" }));
        let body = json!({
            "TableName": self.table,
            "KeySchema": key,
            "AttributeDefinitions": types.collect::<Vec<_>>(),
            "BillingMode": "PAY_PER_REQUEST",
        });
        match send(&self.lines, "CreateTable", &body.to_string()) {
            // Another machine creates it.
            Err(failure) if failure.text.contains("ResourceInUseException") => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Rejects a table with another key.
    fn check(&self, table: &Value) -> Result<(), OpenError> {
        let (found, expected) = (&table["KeySchema"], self.key());
        if *found == expected {
            return Ok(());
        }
        Err(OpenError::System(format!(
            "the table '{}' has the key {found}, not {expected}: give primary_key and, if it has \
             HASH and RANGE, partition_key",
            self.table
        )))
    }

    /// Describes the table, as far as known.
    pub(crate) fn describe(&self) -> Description {
        let table = self.table().ok().flatten().unwrap_or_default();
        let mode = table["BillingModeSummary"]["BillingMode"].as_str();
        let mut configuration =
            BTreeMap::from([("billing_mode".to_owned(), mode.unwrap_or("PROVISIONED").to_owned())]);
        for (name, member) in [("read", "ReadCapacityUnits"), ("write", "WriteCapacityUnits")] {
            let units = table["ProvisionedThroughput"][member].as_u64();
            let entry = units.map(|units| (format!("{name}_capacity_units"), units.to_string()));
            configuration.extend(entry);
        }
        let version = format!("API {VERSION}");
        Description { system: "DynamoDB".to_owned(), version, configuration }
    }
}
