//! One worker's connections and what its clients ask of them.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use kvmark_driver::{OpenError, Reply, Request, Session, Time};
use kvmark_plan::{Kind, Outcome};

use crate::alarm::within;
use crate::commands::{
    Fields, Keys, deleted, put_delete, put_index, put_keys, put_unindex, take_count, take_ok,
};
use crate::connect::{connect, too_slow};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::options::Settings;

/// Connections opened at a time; a server's backlog is a few hundred.
const OPENED_AT_ONCE: usize = 64;

/// A worker's session: one connection per client, or a few that all share.
pub struct RespSession {
    connections: Vec<Connection>,
    first_client: u32,
    fields: Arc<Fields>,
    pipeline_parts: bool,
    /// Buffers for the keys of scans, used again.
    keys: RefCell<Vec<Keys>>,
    failure: RefCell<Option<String>>,
}

impl RespSession {
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        fields: &Arc<Fields>,
        clients: Range<u32>,
        time: &Rc<dyn Time>,
    ) -> Result<Self, OpenError> {
        let count = settings.connections.unwrap_or(usize::MAX).min(clients.len()).max(1);
        let mut connections = Vec::with_capacity(count);
        while connections.len() < count {
            let some = OPENED_AT_ONCE.min(count - connections.len());
            let attempts = join_all((0..some).map(|_| connect(settings)));
            let limit = settings.connect_timeout;
            let streams = within(limit, attempts)
                .await
                .ok_or_else(|| too_slow(limit).at(&settings.target))?;
            for stream in streams {
                let stream = stream.map_err(|failure| failure.at(&settings.target))?;
                connections.push(Connection::new(stream, Arc::clone(settings), Rc::clone(time)));
            }
        }
        Ok(Self {
            connections,
            first_client: clients.start,
            fields: Arc::clone(fields),
            pipeline_parts: settings.pipeline_parts,
            keys: RefCell::default(),
            failure: RefCell::default(),
        })
    }

    fn connection(&self, client: u32) -> &Connection {
        let place = client.saturating_sub(self.first_client) as usize;
        &self.connections[place % self.connections.len()]
    }

    async fn call(
        &self,
        connection: &Connection,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        match request.kind {
            Kind::Read => self.read(connection, request, reply).await,
            Kind::Update => {
                let encode = |output: &mut Vec<u8>| {
                    self.fields.put_write(output, request.key, request.values);
                };
                connection.exchange(1, encode, take_ok).await?;
                Ok(Outcome::Ok)
            }
            Kind::Insert => self.insert(connection, request).await,
            Kind::Delete => self.delete(connection, request).await,
            Kind::Scan => {
                let mut keys = self.keys.borrow_mut().pop().unwrap_or_default();
                let outcome = self.scan(connection, request, &mut keys, reply).await;
                self.keys.borrow_mut().push(keys);
                outcome
            }
            Kind::ReadModifyWrite => {
                let text = "a read-modify-write is executed as a read and an update";
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }

    async fn read(
        &self,
        connection: &Connection,
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
        connection.exchange(1, encode, take).await?;
        Ok(if there { Outcome::Ok } else { Outcome::Miss })
    }

    async fn insert(
        &self,
        connection: &Connection,
        request: &Request<'_>,
    ) -> Result<Outcome, Failure> {
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
            connection.exchange(2, both, take).await?;
        } else {
            connection.exchange(1, write, take_ok).await?;
            connection.exchange(1, index, take_index).await?;
        }
        Ok(Outcome::Ok)
    }

    async fn delete(
        &self,
        connection: &Connection,
        request: &Request<'_>,
    ) -> Result<Outcome, Failure> {
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
            connection.exchange(2, both, take).await?;
        } else {
            connection.exchange(1, delete, &mut take).await?;
            connection.exchange(1, unindex, take).await?;
        }
        Ok(deleted(removed))
    }

    async fn scan(
        &self,
        connection: &Connection,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        keys.clear();
        let index = |output: &mut Vec<u8>| put_keys(output, request.key, request.scan_length);
        connection.exchange(1, index, |bytes| keys.take(bytes)).await?;
        let mut take = |bytes: &[u8]| self.fields.take_read(request, bytes, reply).map(drop);
        if self.pipeline_parts {
            let all = |output: &mut Vec<u8>| {
                keys.iter().for_each(|key| self.fields.put_read(output, key, request.columns));
            };
            let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
            connection.exchange(count, all, take).await?;
        } else {
            for key in keys.iter() {
                let one = |output: &mut Vec<u8>| self.fields.put_read(output, key, request.columns);
                connection.exchange(1, one, &mut take).await?;
            }
        }
        Ok(Outcome::Ok)
    }
}

impl Session for RespSession {
    async fn execute(&self, client: u32, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        let connection = self.connection(client);
        self.call(connection, request, reply).await.unwrap_or_else(|failure| {
            *self.failure.borrow_mut() = Some(failure.text);
            failure.outcome
        })
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}
