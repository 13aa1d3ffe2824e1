//! The operations of clients: their requests and the interpretation of the responses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::{Columns, Expected, Reply, Request};
use kvmark_driver_server::framed::{InFlightOperation, Progress, RequestReply};
use kvmark_plan::{Kind, Outcome};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::failure::{Failure, is_unmet, refused};
use crate::http::Response;
use crate::records::Records;
use crate::signature::Requests;

/// Length limit of a reason, which may have a value in it.
const REASON_MAX: usize = 200;

/// The translation of operations into requests.
pub struct Dialect {
    pub(crate) records: Arc<Records>,
    /// By server.
    pub(crate) requests: Vec<Requests>,
    /// The body of the next request.
    pub(crate) body: Vec<u8>,
    /// The consumed capacity in thousandths of a unit.
    pub(crate) capacity: Arc<AtomicU64>,
}

/// The attributes of a record by name.
type Item<'a> = BTreeMap<&'a str, Attribute<'a>>;

/// An attribute; other types than strings have no text.
#[derive(Deserialize)]
struct Attribute<'a> {
    #[serde(borrow, rename = "S")]
    text: Option<Cow<'a, str>>,
}

/// A response.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    /// The name of an error, which a server may send with any status.
    #[serde(rename = "__type")]
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
    #[serde(borrow, default)]
    items: Vec<Item<'a>>,
    /// The key after which a page ends, if it isn't the last one.
    #[serde(borrow)]
    last_evaluated_key: Option<Item<'a>>,
    consumed_capacity: Option<Capacity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Capacity {
    capacity_units: f64,
}

/// The operation of a client.
#[derive(Debug, Default)]
pub struct DynamoDbOperation {
    pub(crate) progress: Progress,
    /// Index of the server.
    pub(crate) node: usize,
    /// When it began, in microseconds since the Unix epoch.
    pub(crate) at_us: i64,
    task: Task,
    /// The action of the request whose body was written.
    action: &'static str,
    is_update: bool,
    /// Whether the last response announced the end of its connection.
    closes: bool,
    /// Whether the record of an update is missing.
    is_missed: bool,
    /// The last key of a scan so far.
    key: Vec<u8>,
    /// The records of a scan.
    scanned: Reply,
}

#[derive(Debug, Default)]
enum Task {
    #[default]
    Write,
    Read {
        columns: Columns,
        wants_values: bool,
        expected: Option<Expected>,
        outcome: Outcome,
    },
    Scan {
        columns: Columns,
        wants_values: bool,
        /// Whether the next response has the start record alone.
        is_start: bool,
        /// The number of records to read; 0 at the end of the table.
        missing: u64,
    },
}

impl DynamoDbOperation {
    /// Signs the request whose body was written.
    fn sign(&self, action: &str, dialect: &mut Dialect, output: &mut Vec<u8>) {
        let Dialect { requests, body, .. } = dialect;
        requests[self.node].put(output, action, body, self.at_us);
    }
}

impl RequestReply for DynamoDbOperation {
    /// Writes the body of the first request.
    fn begin(&mut self, request: &Request<'_>, dialect: &mut Dialect) -> Result<(), Failure> {
        let Request { kind, key, columns, values, wants_values, scan_length, .. } = *request;
        let Dialect { records, requests, body, .. } = dialect;
        let mut texts = values.iter().map(|(_, value)| value).chain([key]);
        if texts.any(|text| str::from_utf8(text).is_err()) {
            let text = "a key or value isn't UTF-8, as DynamoDB's strings must be";
            return Err(Failure::new(Outcome::Refused, text));
        }
        self.node = request.number as usize % requests.len();
        self.at_us = request.at_us;
        (self.is_update, self.is_missed) = (kind == Kind::Update, false);
        self.task = match kind {
            Kind::Read => {
                let (expected, outcome) = (request.expected.copied(), Outcome::Ok);
                Task::Read { columns, wants_values, expected, outcome }
            }
            Kind::Scan => {
                self.scanned.clear();
                self.key.clear();
                self.key.extend_from_slice(key);
                let (is_start, missing) = (!records.has_partition(), scan_length);
                Task::Scan { columns, wants_values, is_start, missing }
            }
            _ => Task::Write,
        };
        self.action = if let Task::Scan { is_start: false, .. } = self.task {
            records.put_page(body, key, true, scan_length, columns)
        } else {
            records.put(body, kind, key, values, columns)
        };
        Ok(())
    }

    fn requests(&self) -> usize {
        1
    }

    fn node(&self, _number: usize) -> usize {
        self.node
    }

    fn put(&self, _: usize, _: &Request<'_>, dialect: &mut Dialect, output: &mut Vec<u8>) {
        self.sign(self.action, dialect, output);
    }

    fn has_more(&self) -> bool {
        matches!(self.task, Task::Scan { missing: 1.., .. })
    }

    /// Writes and signs the next page of a scan.
    fn put_more(&mut self, dialect: &mut Dialect, output: &mut Vec<u8>) {
        if let Task::Scan { columns, missing, .. } = self.task {
            let Dialect { records, body, .. } = dialect;
            let action = records.put_page(body, &self.key, false, missing, columns);
            self.sign(action, dialect, output);
        }
    }

    fn closes(&self) -> bool {
        self.closes
    }

    fn take(
        &mut self,
        _: usize,
        frame: &[u8],
        dialect: &mut Dialect,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        let response = Response::read(frame).ok().flatten().expect("the frame is complete");
        self.closes = response.closes;
        let Dialect { records, capacity, .. } = dialect;
        single.clear();
        if self.is_update && response.status == 400 && is_unmet(&response.body) {
            self.is_missed = true;
            return Ok(());
        }
        if response.status != 200 {
            return Err(refused(response.status, &response.body));
        }
        let answer: Answer<'_> = serde_json::from_slice(&response.body).map_err(|error| {
            let reason: String = error.to_string().chars().take(REASON_MAX).collect();
            let text = format!("the server's answer can't be read ({reason})");
            Failure::new(Outcome::Protocol, text)
        })?;
        if answer.error.is_some() {
            return Err(refused(response.status, &response.body));
        }
        if let Some(Capacity { capacity_units }) = answer.consumed_capacity {
            capacity.fetch_add((capacity_units * 1000.0).round() as u64, Ordering::Relaxed);
        }
        match &mut self.task {
            Task::Write => {}
            Task::Read { columns, wants_values, expected, outcome } => {
                let Some(item) = &answer.item else {
                    *outcome = Outcome::Miss;
                    return Ok(());
                };
                let wants_values = *wants_values || expected.is_some();
                records.take(item, *columns, wants_values, single);
                if let Some(expected) = expected {
                    let mut comparison = expected.compare();
                    single.cells.iter().for_each(|cell| comparison.see(single.bytes_of(cell)));
                    *outcome = comparison.outcome();
                }
            }
            Task::Scan { columns, wants_values, is_start, missing } => {
                for item in answer.item.iter().chain(&answer.items) {
                    records.take(item, *columns, *wants_values, &mut self.scanned);
                    *missing = missing.saturating_sub(1);
                }
                let last = answer.last_evaluated_key.unwrap_or_default();
                match last.get(&*records.primary_key) {
                    Some(Attribute { text: Some(text) }) => {
                        self.key.clear();
                        self.key.extend_from_slice(text.as_bytes());
                    }
                    _ if *is_start => {}
                    _ => *missing = 0,
                }
                *is_start = false;
            }
        }
        Ok(())
    }
}

impl Records {
    /// Takes the requested values of a record as the next row.
    fn take(&self, item: &Item<'_>, columns: Columns, wants_values: bool, reply: &mut Reply) {
        for (field, name) in (0..).zip(self.field_names.iter().filter(|_| wants_values)) {
            let is_requested = matches!(columns, Columns::All | Columns::AllByName)
                || columns == Columns::One(field);
            if let (true, Some(Attribute { text: Some(text) })) = (is_requested, item.get(&**name))
            {
                reply.push(reply.rows as u32, field, text.as_bytes());
            }
        }
        reply.rows += 1;
    }
}

impl InFlightOperation for DynamoDbOperation {
    type Context = Dialect;

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn outcome(&mut self, _: &mut Reply) -> Outcome {
        match self.task {
            Task::Read { outcome, .. } => outcome,
            _ if self.is_missed => Outcome::Miss,
            _ => Outcome::Ok,
        }
    }

    fn reply<'a>(&'a self, single: &'a Reply) -> &'a Reply {
        if matches!(self.task, Task::Scan { .. }) { &self.scanned } else { single }
    }

    fn clear(&mut self, _: &mut Dialect) {
        self.task = Task::Write;
    }
}
