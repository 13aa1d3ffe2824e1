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
    progress: Progress,
    /// Index of the server.
    node: usize,
    /// When it began, in microseconds since the Unix epoch.
    at_us: i64,
    kind: Option<Kind>,
    columns: Columns,
    wants_values: bool,
    expected: Option<Expected>,
    /// The action of the request whose body was written.
    action: &'static str,
    /// Whether the last response announced the end of its connection.
    closes: bool,
    /// The outcome, if it isn't [`Outcome::Ok`].
    outcome: Option<Outcome>,
    /// Whether the next response to a scan has the start record alone.
    is_start: bool,
    /// The number of records that a scan has still to read; 0 at the end of the table.
    missing: u64,
    /// The last key of a scan so far.
    key: Vec<u8>,
    /// The records of a scan.
    scanned: Reply,
}

impl DynamoDbOperation {
    /// Signs the request whose body was written.
    fn sign(&self, action: &str, dialect: &mut Dialect, output: &mut Vec<u8>) {
        let Dialect { requests, body, .. } = dialect;
        requests[self.node].put(output, action, body, self.at_us);
    }

    /// Takes a page of a scan.
    fn take_page(&mut self, answer: &Answer<'_>, records: &Records) {
        for item in answer.item.iter().chain(&answer.items) {
            records.take(item, self.columns, self.wants_values, &mut self.scanned);
            self.missing = self.missing.saturating_sub(1);
        }
        let last = answer.last_evaluated_key.as_ref();
        match last.and_then(|last| last.get(&*records.primary_key)) {
            Some(Attribute { text: Some(text) }) => {
                self.key.clear();
                self.key.extend_from_slice(text.as_bytes());
            }
            _ if self.is_start => {}
            _ => self.missing = 0,
        }
        self.is_start = false;
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
        (self.kind, self.outcome, self.missing) = (Some(kind), None, 0);
        (self.columns, self.wants_values) = (columns, wants_values);
        self.expected = request.expected.copied();
        if kind == Kind::Scan {
            self.scanned.clear();
            self.key.clear();
            self.key.extend_from_slice(key);
            (self.is_start, self.missing) = (!records.has_partition(), scan_length);
        }
        self.action = if kind == Kind::Scan && !self.is_start {
            records.put_page(body, key, true, scan_length, columns)
        } else {
            records.put(body, kind, key, values, columns)
        };
        Ok(())
    }

    fn node(&self, _number: usize) -> usize {
        self.node
    }

    fn put(&self, _: usize, _: &Request<'_>, dialect: &mut Dialect, output: &mut Vec<u8>) {
        self.sign(self.action, dialect, output);
    }

    fn has_more(&self) -> bool {
        self.missing > 0
    }

    /// Writes and signs the next page of a scan.
    fn put_more(&mut self, dialect: &mut Dialect, output: &mut Vec<u8>) {
        let Dialect { records, body, .. } = dialect;
        let action = records.put_page(body, &self.key, false, self.missing, self.columns);
        self.sign(action, dialect, output);
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
        if self.kind == Some(Kind::Update) && response.status == 400 && is_unmet(&response.body) {
            self.outcome = Some(Outcome::Miss);
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
        if let Some(Capacity { capacity_units }) = &answer.consumed_capacity {
            capacity.fetch_add((capacity_units * 1000.0).round() as u64, Ordering::Relaxed);
        }
        match (self.kind, &answer.item) {
            (Some(Kind::Read), None) => self.outcome = Some(Outcome::Miss),
            (Some(Kind::Read), Some(item)) => {
                let wants_values = self.wants_values || self.expected.is_some();
                records.take(item, self.columns, wants_values, single);
                self.outcome = self.expected.as_ref().map(|expected| single.compare(expected));
            }
            (Some(Kind::Scan), _) => self.take_page(&answer, records),
            _ => {}
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

    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let reply = if self.kind == Some(Kind::Scan) { &self.scanned } else { single };
        (self.outcome.unwrap_or(Outcome::Ok), reply)
    }
}
