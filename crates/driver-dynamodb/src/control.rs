//! The store: its table, information about it, and the console.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::{About, Description, Layout, Never, OpenError, Place, Scheme};
use kvmark_driver_server::framed::RequestReplySession;
use kvmark_driver_server::timers::wall_us;
use kvmark_driver_server::{Counters, SessionOf, Store, Target, settle};
use serde_json::{Value, json};

use crate::failure::{Failure, MISSING_TABLE};
use crate::http::Response;
use crate::operation::{Dialect, DynamoDbOperation};
use crate::options::{PORT, Settings};
use crate::records::Records;
use crate::signature::{Requests, VERSION};

/// The driver's own connections.
type Lines = kvmark_driver_server::framed::Lines<Settings>;

/// Sends a request to the first server.
fn send(lines: &Lines, action: &str, body: &str) -> Result<Value, Failure> {
    let mut request = Vec::new();
    let mut requests = Requests::new(Arc::clone(&lines.protocol), lines.first());
    requests.put(&mut request, action, body.as_bytes(), wall_us());
    let frame = lines.send(lines.first(), &request)?;
    let response = Response::read(&frame)?.expect("the frame is complete");
    serde_json::from_slice(&response.body).map_err(|_| Failure::unexpected_reply(action))
}

/// A table of servers with the API of DynamoDB.
pub struct DynamoDbStore {
    table: String,
    records: Arc<Records>,
    /// The consumed capacity in thousandths of a unit.
    capacity: Arc<AtomicU64>,
}

impl Store for DynamoDbStore {
    type Protocol = Settings;
    type Operation = DynamoDbOperation;
    type Route = Never;

    const ABOUT: About = About {
        port: Some(PORT),
        ycsb_bindings: &["dynamodb", "site.ycsb.db.DynamoDBClient"],
        ycsb_properties: &["dynamodb."],
        stores_text: true,
        ..About::new(
            "dynamodb",
            Place::Hosts,
            &[
                Scheme::new("dynamodb", "dynamodb://host:8000"),
                Scheme {
                    name: "dynamodbs",
                    example: "dynamodbs://dynamodb.us-east-1.amazonaws.com",
                    implied: &[("tls", "true")],
                },
            ],
        )
    };
    const HAS_STATEMENTS: bool = false;
    const NUMBERS: &'static str = "capacity_units";

    /// Creates the table if it is missing, and waits until it can be used. Rejects a table with
    /// another key.
    fn open(lines: &Lines, layout: &Layout) -> Result<Self, OpenError> {
        let (table, target) = (layout.table.clone(), lines.first());
        let records = Arc::new(Records::new(layout, &lines.protocol));
        let store = Self { table, records, capacity: Arc::default() };
        match store.table(lines).map_err(|failure| lines.refused(target, failure))? {
            Some(table) => store.check(lines, &table)?,
            None => store.create(lines).map_err(|failure| failure.at(target))?,
        }
        settle(target, || {
            let table = store.table(lines)?;
            Ok(table.is_none_or(|table| table["TableStatus"] != "ACTIVE"))
        })?;
        Ok(store)
    }

    fn describe(&self, lines: &Lines) -> Description {
        let table = self.table(lines).ok().flatten().unwrap_or_default();
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

    fn session(&self, lines: &Lines, clients: u32) -> Result<SessionOf<Self>, OpenError> {
        let Self { records, capacity, .. } = self;
        let requests = |target| Requests::new(Arc::clone(&lines.protocol), target);
        let dialect = Dialect {
            records: Arc::clone(records),
            requests: lines.protocol.servers.targets.iter().map(requests).collect(),
            body: Vec::new(),
            capacity: Arc::clone(capacity),
        };
        RequestReplySession::open(&lines.protocol, dialect, clients)
    }

    /// The capacity that the servers report to this process, as that of the first one.
    fn counters(&self, lines: &Lines, node: &Target) -> Result<Counters, Failure> {
        let units = self.capacity.load(Ordering::Relaxed) as f64 / 1000.0;
        let counts = lines.protocol.counts_capacity && node == lines.first();
        let entry = counts.then(|| (Self::NUMBERS.to_owned(), units.to_string()));
        Ok(entry.into_iter().collect())
    }

    /// An action of the API and the JSON of its request.
    fn ask(lines: &Lines, words: &[String]) -> Result<Value, OpenError> {
        let [action, body] = words else {
            let text = "give an action of the API and the JSON of its request";
            return Err(OpenError::System(text.to_owned()));
        };
        send(lines, action, body).map_err(|failure| failure.at(lines.first()))
    }
}

impl DynamoDbStore {
    /// The description of the table, unless it is missing.
    fn table(&self, lines: &Lines) -> Result<Option<Value>, Failure> {
        let body = json!({ "TableName": self.table }).to_string();
        match send(lines, "DescribeTable", &body) {
            Ok(mut answer) => Ok(Some(answer["Table"].take())),
            Err(failure) if failure.text.contains(MISSING_TABLE) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The key of the table, by the names of its attributes.
    fn key(lines: &Lines) -> Value {
        let Settings { primary_key, partition, .. } = &*lines.protocol;
        let part = |name, role| json!({ "AttributeName": name, "KeyType": role });
        match partition {
            None => json!([part(primary_key, "HASH")]),
            Some((name, _)) => json!([part(name, "HASH"), part(primary_key, "RANGE")]),
        }
    }

    fn create(&self, lines: &Lines) -> Result<(), Failure> {
        let key = Self::key(lines);
        let names = key.as_array().into_iter().flatten().map(|part| &part["AttributeName"]);
        let types = names.map(|name| json!({ "AttributeName": name, "AttributeType": "S" }));
        let body = json!({
            "TableName": self.table,
            "KeySchema": key,
            "AttributeDefinitions": types.collect::<Vec<_>>(),
            "BillingMode": "PAY_PER_REQUEST",
        });
        match send(lines, "CreateTable", &body.to_string()) {
            // Another machine creates it.
            Err(failure) if failure.text.contains("ResourceInUseException") => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Rejects a table with another key.
    fn check(&self, lines: &Lines, table: &Value) -> Result<(), OpenError> {
        let (found, expected) = (&table["KeySchema"], Self::key(lines));
        if *found == expected {
            return Ok(());
        }
        Err(OpenError::System(format!(
            "the table '{}' has the key {found}, not {expected}: give primary_key and, if it has \
             HASH and RANGE, partition_key",
            self.table
        )))
    }
}
