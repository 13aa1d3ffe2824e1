//! One worker's connections and what its clients ask of them.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use kvmark_driver::{Call, OpenError, Reply, Request, Session, Time};
use kvmark_plan::{Kind, Outcome};

use crate::answers::Answers;
use crate::cluster::Cluster;
use crate::commands::{
    Fields, Keys, deleted, put_delete, put_index, put_keys, put_unindex, take_count, take_ok,
};
use crate::connect::connect_all;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::line::{Line, Way};
use crate::options::Settings;
use crate::prepared::Prepared;

/// A worker's session: one connection per client, or a few that all share.
pub struct RespSession {
    ways: Ways,
    /// Connections to each server.
    width: usize,
    fields: Arc<Fields>,
    statements: Arc<[Prepared]>,
    pipeline_parts: bool,
    /// Buffers for the keys of scans, used again.
    keys: RefCell<Vec<Keys>>,
    failure: RefCell<Option<String>>,
}

enum Ways {
    Server(Vec<Connection>),
    Cluster(Box<Cluster>),
}

impl RespSession {
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        fields: &Arc<Fields>,
        statements: &Arc<[Prepared]>,
        clients: Range<u32>,
        time: &Rc<dyn Time>,
    ) -> Result<Self, OpenError> {
        let width = settings.connections.unwrap_or(usize::MAX).min(clients.len()).max(1);
        let ways = if settings.cluster {
            Ways::Cluster(Box::new(Cluster::open(settings, width, time).await?))
        } else {
            let target = settings.target();
            let connection = |stream| {
                let (settings, time) = (Arc::clone(settings), Rc::clone(time));
                Connection::new(Some(stream), target.clone(), settings, time)
            };
            let streams = connect_all(settings, target, width).await?;
            Ways::Server(streams.into_iter().map(connection).collect())
        };
        Ok(Self {
            ways,
            width,
            fields: Arc::clone(fields),
            statements: Arc::clone(statements),
            pipeline_parts: settings.pipeline_parts,
            keys: RefCell::default(),
            failure: RefCell::default(),
        })
    }

    fn line(&self, client: u32) -> Line<'_> {
        let place = client as usize % self.width;
        Line::new(match &self.ways {
            Ways::Server(connections) => Way::Server(&connections[place]),
            Ways::Cluster(cluster) => Way::Cluster(cluster, place),
        })
    }

    async fn call(
        &self,
        line: &Line<'_>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        if let Some(call) = &request.statement {
            return self.carry_out(line, request, call, reply).await;
        }
        match request.kind {
            Kind::Read => self.read(line, request, reply).await,
            Kind::Update => {
                let encode = |output: &mut Vec<u8>| {
                    self.fields.put_write(output, request.key, request.values);
                };
                line.exchange(1, encode, take_ok).await?;
                Ok(Outcome::Ok)
            }
            Kind::Insert => self.insert(line, request).await,
            Kind::Delete => self.delete(line, request).await,
            Kind::Scan => {
                let mut keys = self.keys.borrow_mut().pop().unwrap_or_default();
                let outcome = self.scan(line, request, &mut keys, reply).await;
                self.keys.borrow_mut().push(keys);
                outcome
            }
            Kind::ReadModifyWrite => {
                let text = "a read-modify-write is executed as a read and an update";
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }

    async fn carry_out(
        &self,
        line: &Line<'_>,
        request: &Request<'_>,
        call: &Call<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let prepared = &self.statements[call.statement as usize];
        let mut answers = Answers::new(prepared, call, request.kind, request.wants_values, reply);
        line.carry_out(prepared, call, |bytes| answers.take(bytes)).await?;
        Ok(answers.outcome())
    }

    async fn read(
        &self,
        line: &Line<'_>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let mut there = false;
        let encode =
            |output: &mut Vec<u8>| self.fields.put_read(output, request.key, request.columns);
        let take = |bytes: &[u8]| {
            there = self.fields.take_read(request, bytes, reply)?;
            Ok(())
        };
        line.exchange(1, encode, take).await?;
        Ok(if there { Outcome::Ok } else { Outcome::Miss })
    }

    async fn insert(&self, line: &Line<'_>, request: &Request<'_>) -> Result<Outcome, Failure> {
        let write =
            |output: &mut Vec<u8>| self.fields.put_write(output, request.key, request.values);
        let index = |output: &mut Vec<u8>| put_index(output, request.key);
        let take_index = |bytes: &[u8]| take_count(bytes).map(drop);
        if self.pipeline_parts {
            let mut written = false;
            let both = |output: &mut Vec<u8>| {
                write(output);
                index(output);
            };
            let take = |bytes: &[u8]| {
                if std::mem::replace(&mut written, true) {
                    return take_index(bytes);
                }
                take_ok(bytes)
            };
            line.exchange(2, both, take).await?;
        } else {
            line.exchange(1, write, take_ok).await?;
            line.exchange(1, index, take_index).await?;
        }
        Ok(Outcome::Ok)
    }

    async fn delete(&self, line: &Line<'_>, request: &Request<'_>) -> Result<Outcome, Failure> {
        let mut removed = 0;
        let mut take = |bytes: &[u8]| {
            removed += take_count(bytes)?;
            Ok(())
        };
        let delete = |output: &mut Vec<u8>| put_delete(output, request.key);
        let unindex = |output: &mut Vec<u8>| put_unindex(output, request.key);
        if self.pipeline_parts {
            let both = |output: &mut Vec<u8>| {
                delete(output);
                unindex(output);
            };
            line.exchange(2, both, take).await?;
        } else {
            line.exchange(1, delete, &mut take).await?;
            line.exchange(1, unindex, take).await?;
        }
        Ok(deleted(removed))
    }

    async fn scan(
        &self,
        line: &Line<'_>,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        keys.clear();
        let index = |output: &mut Vec<u8>| put_keys(output, request.key, request.scan_length);
        line.exchange(1, index, |bytes| keys.take(bytes)).await?;
        let mut take = |bytes: &[u8]| self.fields.take_read(request, bytes, reply).map(drop);
        if self.pipeline_parts {
            let all = |output: &mut Vec<u8>| {
                keys.iter().for_each(|key| self.fields.put_read(output, key, request.columns));
            };
            let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
            line.exchange(count, all, take).await?;
        } else {
            for key in keys.iter() {
                let one = |output: &mut Vec<u8>| self.fields.put_read(output, key, request.columns);
                line.exchange(1, one, &mut take).await?;
            }
        }
        Ok(Outcome::Ok)
    }
}

impl Session for RespSession {
    async fn execute(&self, client: u32, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        let line = self.line(client);
        let outcome = self.call(&line, request, reply).await;
        reply.attempts += line.redirections();
        outcome.unwrap_or_else(|failure| {
            *self.failure.borrow_mut() = Some(failure.text);
            failure.outcome
        })
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}
