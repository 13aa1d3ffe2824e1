//! One worker's connections and what its clients ask of them, turn by turn.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Reply, Request, Session, Ticket};
use kvmark_driver_server::framed::{Framed, Handler, Lost, NOBODY, turn};
use kvmark_plan::Outcome;

use crate::clients::Clients;
use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, Operation};
use crate::options::Settings;
use crate::records::Records;
use crate::statements::Prepared;

/// A worker's session: to each server one connection per client, or a few that all share.
pub struct MemcachedSession {
    clients: Clients,
}

impl MemcachedSession {
    pub(crate) fn open(
        settings: &Arc<Settings>,
        records: &Arc<Records>,
        statements: &Arc<[Prepared]>,
        clients: u32,
    ) -> Result<Self, OpenError> {
        let width = settings.connections.unwrap_or(usize::MAX).min(clients as usize).max(1);
        let mut connections = Connections::new(Arc::clone(settings), width)?;
        for target in &settings.targets {
            connections.open(target)?;
        }
        let dialect = Dialect {
            records: Arc::clone(records),
            statements: Arc::clone(statements),
            servers: settings.targets.len(),
            merged: Vec::new(),
            unique: Vec::new(),
        };
        let operations = (0..clients).map(|_| Operation::default()).collect();
        let (ended, alone) = (Vec::new(), Reply::default());
        let clients = Clients { dialect, connections, operations, ended, alone };
        Ok(Self { clients })
    }
}

impl Handler<Settings> for MemcachedSession {
    #[inline]
    fn framed(&mut self) -> &mut Framed<Settings> {
        &mut self.clients.connections
    }

    #[inline]
    fn issue(&mut self, ticket: Ticket) -> bool {
        self.clients.operations[ticket as usize].issue()
    }

    /// Takes a reply for the first in the queue.
    #[inline]
    fn take(
        &mut self,
        index: usize,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        match self.clients.connections.exchanges(index).answered() {
            Some(place) if place.ticket != NOBODY => {
                self.clients.take(place.ticket, place.next, reply, at_ns, done)
            }
            _ => Ok(()),
        }
    }

    fn lost(&mut self, lost: Lost) {
        self.clients.lose(lost.ticket, lost.failure);
    }

    #[inline]
    fn has_ended(&self) -> bool {
        !self.clients.ended.is_empty()
    }

    #[inline]
    fn tell(&mut self, at_ns: u64, done: &mut impl Completions) {
        self.clients.tell(at_ns, done);
    }
}

impl Session for MemcachedSession {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.connections.has_room()
    }

    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let Clients { dialect, operations, ended, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        match operation.begin(request, dialect) {
            Ok(()) if operation.parts.is_empty() => ended.push((ticket, Ok(Outcome::Ok))),
            Ok(()) => self.clients.enter(ticket, request),
            Err(failure) => ended.push((ticket, Err(failure))),
        }
    }

    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        turn(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.clients.give_up(ticket);
    }

    fn due_ns(&self) -> u64 {
        self.clients.connections.due_ns()
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.connections.awaited()
    }
}
