//! The operations of clients: their requests and results.

use std::sync::Arc;

use kvmark_driver::{Effect, Expected, Reply, Request};
use kvmark_driver_server::framed::{InFlightOperation, Progress, RequestReply};
use kvmark_plan::{Kind, Outcome};

use crate::bson::{Document, Value};
use crate::failure::{Failure, unreadable};
use crate::message::{Answer, reply};
use crate::records::Records;

/// The translation of operations into commands.
#[derive(Debug)]
pub struct Dialect {
    pub(crate) records: Arc<Records>,
    /// The number of the latest request.
    pub(crate) latest: u32,
}

/// The operation of a client.
#[derive(Debug, Default)]
pub struct MongoDbOperation {
    progress: Progress,
    /// The number of its request.
    id: u32,
    kind: Option<Kind>,
    wants_values: bool,
    expected: Option<Expected>,
    outcome: Option<Outcome>,
    /// The server's cursor of a scan with more documents; else 0.
    cursor: i64,
    /// The documents of a scan.
    scanned: Reply,
}

impl MongoDbOperation {
    /// Takes the documents of a reply to a read or scan.
    #[inline]
    fn take_documents(
        &mut self,
        cursor: Document<'_>,
        records: &Records,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        let reply = if self.kind == Some(Kind::Scan) { &mut self.scanned } else { single };
        for element in cursor {
            match element? {
                (b"id", id) => self.cursor = id.number().unwrap_or_default(),
                (b"firstBatch" | b"nextBatch", Value::Array(documents)) => {
                    for document in documents {
                        let Value::Document(document) = document?.1 else {
                            return Err(unreadable());
                        };
                        let mut comparison = self.expected.as_ref().map(Expected::compare);
                        records.take(document, reply, self.wants_values, comparison.as_mut())?;
                        self.outcome = comparison.map(|comparison| comparison.outcome());
                    }
                }
                _ => {}
            }
        }
        if self.kind == Some(Kind::Read) && reply.rows == 0 {
            self.outcome = Some(Outcome::Miss);
        }
        Ok(())
    }
}

impl RequestReply for MongoDbOperation {
    #[inline]
    fn begin(&mut self, request: &Request<'_>, dialect: &mut Dialect) -> Result<(), Failure> {
        if str::from_utf8(request.key).is_err() {
            let text = "a key isn't UTF-8, as MongoDB's strings must be";
            return Err(Failure::new(Outcome::Refused, text));
        }
        dialect.latest = dialect.latest.wrapping_add(1);
        self.id = dialect.latest;
        (self.kind, self.wants_values) = (Some(request.kind), request.wants_values);
        self.expected = request.expected.copied();
        (self.outcome, self.cursor) = (None, 0);
        self.scanned.clear();
        Ok(())
    }

    #[inline]
    fn put(&self, _: usize, request: &Request<'_>, dialect: &mut Dialect, output: &mut Vec<u8>) {
        dialect.records.put(output, self.id, request);
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.cursor != 0
    }

    fn put_more(&mut self, dialect: &mut Dialect, output: &mut Vec<u8>) {
        dialect.records.put_more(output, self.id, self.cursor);
    }

    #[inline]
    fn take(
        &mut self,
        _: usize,
        frame: &[u8],
        dialect: &mut Dialect,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        single.clear();
        self.cursor = 0;
        let (answered, document) = reply(frame)?;
        if answered != self.id {
            let text = "the server's reply is for another request";
            return Err(Failure::new(Outcome::Protocol, text));
        }
        let answer = Answer::read(document)?;
        if let Some(failure) = answer.unconfirmed {
            single.effects.push((0, Effect::Unknown));
            return Err(failure);
        }
        match (self.kind, answer.cursor) {
            (Some(Kind::Read | Kind::Scan), Some(cursor)) => {
                self.take_documents(cursor, &dialect.records, single)?;
            }
            (Some(Kind::Read | Kind::Scan), None) => return Err(unreadable()),
            _ if answer.count == 0 => self.outcome = Some(Outcome::Miss),
            _ => {}
        }
        Ok(())
    }
}

impl InFlightOperation for MongoDbOperation {
    type Context = Dialect;

    #[inline]
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    #[inline]
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let reply = if self.kind == Some(Kind::Scan) { &self.scanned } else { single };
        (self.outcome.unwrap_or(Outcome::Ok), reply)
    }
}
