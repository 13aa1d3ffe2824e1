//! A worker's session: its connections and the operations of its clients.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::framed::{ABANDONED, Framed, Handler, InFlight, Lost, poll};

use crate::Memcached;
use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, MemcachedOperation};
use crate::options::Settings;

/// A worker's session. Each client has a connection to each server, or all clients share a few.
pub struct MemcachedSession {
    clients: InFlight<Settings, MemcachedOperation>,
}

impl MemcachedSession {
    pub(crate) fn open(memcached: &Memcached, clients: u32) -> Result<Self, OpenError> {
        let Memcached { settings, records, statements, .. } = memcached;
        let width = settings.connections.unwrap_or(usize::MAX).min(clients as usize);
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
        Ok(Self { clients: InFlight::new(connections, dialect, clients, false) })
    }

    /// Encodes all subcommands of an operation; they go out with the next flush.
    #[inline]
    fn enter(&mut self, ticket: Ticket, request: &Request<'_>) {
        let operation = &mut self.clients.operations[ticket as usize];
        let count = operation.subcommands.len();
        operation.progress.outstanding = count as u32;
        for number in 0..count {
            let node = self.clients.operations[ticket as usize].subcommands[number].node;
            let index = self.clients.framed.index(node, ticket);
            self.clients.enter(ticket, index, |operation, dialect, output| {
                operation.put(number, request, dialect, output);
                (1, number as u32)
            });
        }
    }

    /// Takes the reply to a subcommand. An error closes the connection.
    #[inline]
    fn take_reply(
        &mut self,
        ticket: Ticket,
        number: u32,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let InFlight { context, operations, single, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        if let Err(failure) = operation.take(number as usize, reply, context, single) {
            if failure.ends_connection() {
                self.clients.lose(ticket, failure.clone());
                return Err(failure);
            }
            operation.progress.failure.get_or_insert(failure);
        }
        operation.progress.outstanding -= 1;
        if operation.progress.outstanding > 0 {
            return Ok(());
        }
        if operation.progress.failure.is_none() && operation.has_more() {
            operation.progress.outstanding = 1;
            let node = operation.subcommands[0].node;
            let index = self.clients.framed.index(node, ticket);
            self.clients.enter(ticket, index, |operation, dialect, output| {
                operation.put_more(dialect, output);
                (1, 0)
            });
        } else {
            self.clients.complete(ticket, at_ns, done);
        }
        Ok(())
    }
}

impl Handler<Settings> for MemcachedSession {
    #[inline]
    fn framed(&mut self) -> &mut Framed<Settings> {
        &mut self.clients.framed
    }

    #[inline]
    fn issue(&mut self, ticket: Ticket) -> bool {
        self.clients.issue(ticket)
    }

    #[inline]
    fn take(
        &mut self,
        index: usize,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        match self.clients.framed.exchanges(index).answered() {
            Some(exchange) if exchange.ticket != ABANDONED => {
                self.take_reply(exchange.ticket, exchange.next, reply, at_ns, done)
            }
            _ => Ok(()),
        }
    }

    fn lost(&mut self, lost: Lost) {
        self.clients.lose(lost.ticket, lost.failure);
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.clients.has_ended()
    }

    #[inline]
    fn report_ended(&mut self, at_ns: u64, done: &mut impl Completions) {
        self.clients.report_ended(at_ns, done);
    }
}

impl Session for MemcachedSession {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let InFlight { context, operations, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        match operation.begin(request, context) {
            Ok(()) if operation.subcommands.is_empty() => self.clients.end(ticket),
            Ok(()) => self.enter(ticket, request),
            Err(failure) => self.clients.end_failed(ticket, failure),
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        poll(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        let InFlight { framed, operations, .. } = &mut self.clients;
        let subcommands = &operations[ticket as usize].subcommands;
        if subcommands.len() < 2 {
            return self.clients.give_up(ticket);
        }
        let index = |node| framed.index(node, ticket);
        let indices: Vec<_> = subcommands.iter().map(|part| index(part.node)).collect();
        self.clients.give_up_all(ticket, indices);
    }

    fn due_ns(&self) -> u64 {
        self.clients.framed.due_ns()
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
