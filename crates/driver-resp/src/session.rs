//! A worker's session: its connections and the operations of its clients.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::framed::{ABANDONED, Framed, Handler, InFlight, Lost, poll};

use crate::Resp;
use crate::cluster::{Clients, Cluster, MAP};
use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Context, Dialect, RespOperation};
use crate::options::Settings;
use kvmark_wire::resp::is_push;

/// A worker's session. Each client has a connection, or all clients share a few.
pub struct RespSession {
    clients: Clients,
    cluster: Option<Box<Cluster>>,
}

impl RespSession {
    pub(crate) fn open(resp: &Resp, clients: u32) -> Result<Self, OpenError> {
        let Resp { settings, fields, statements, control } = resp;
        let width = settings.limits.width(clients);
        let mut connections = Connections::new(Arc::clone(settings), width)?;
        let cluster = if settings.cluster {
            Some(Box::new(Cluster::open(control.shares()?, &mut connections)?))
        } else {
            connections.open(settings.target())?;
            None
        };
        let dialect = Dialect {
            fields: Arc::clone(fields),
            statements: Arc::clone(statements),
            pipeline_parts: settings.pipeline_parts,
        };
        let in_cluster = cluster.is_some();
        let context = Context::new(dialect, in_cluster);
        let clients = InFlight::new(connections, context, clients, !in_cluster);
        Ok(Self { clients, cluster })
    }

    /// Encodes the first commands of an operation; they go out with the next flush.
    fn begin(&mut self, ticket: Ticket, request: &Request<'_>) -> Result<(), Failure> {
        let InFlight { context, operations, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        operation.begin(request, context)?;
        if let Some(cluster) = &mut self.cluster {
            if let Some(work) = &mut operation.work {
                context.dialect.pack(request, &mut work.batch)?;
            }
            cluster.deliver(&mut self.clients, ticket);
        } else if context.dialect.is_nothing(request) {
            self.clients.end(ticket);
        } else {
            self.enter(ticket, |_, dialect, output| dialect.put(request, output));
        }
        Ok(())
    }

    /// Begins an exchange with the only server; `put` returns the number of replies.
    #[inline]
    fn enter(
        &mut self,
        ticket: Ticket,
        put: impl FnOnce(&mut RespOperation, &Dialect, &mut Vec<u8>) -> u32,
    ) {
        self.clients.operations[ticket as usize].progress.outstanding = 1;
        let index = self.clients.framed.index(0, ticket);
        self.clients.enter(ticket, index, |operation, context, output| {
            (put(operation, &context.dialect, output), 0)
        });
    }

    /// Takes a reply of the only server. An error closes the connection.
    #[inline]
    fn take_single(
        &mut self,
        ticket: Ticket,
        reply: &[u8],
        is_last: bool,
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let InFlight { context, operations, single, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        match operation.take(&context.dialect, reply, single) {
            Err(failure) if failure.ends_connection() => return Err(failure),
            Err(failure) => {
                operation.progress.failure.get_or_insert(failure);
            }
            Ok(()) => {}
        }
        if is_last {
            if operation.progress.failure.is_none() && operation.has_more(&context.dialect) {
                self.enter(ticket, RespOperation::put_more);
            } else {
                self.clients.complete(ticket, at_ns, done);
            }
        }
        Ok(())
    }
}

impl Handler<Settings> for RespSession {
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
        if is_push(reply) {
            return Ok(());
        }
        let Some(exchange) = self.clients.framed.exchanges(index).answered() else {
            return Ok(());
        };
        let (ticket, is_last) = (exchange.ticket, exchange.replies == 1);
        match (ticket, &mut self.cluster) {
            (ABANDONED, _) => Ok(()),
            (MAP, Some(cluster)) => cluster.take_map(&mut self.clients, index, reply),
            (_, Some(cluster)) => {
                cluster.keep(&mut self.clients, ticket, exchange.next, reply);
                if is_last {
                    cluster.complete(&mut self.clients, ticket, at_ns, done);
                }
                Ok(())
            }
            (_, None) => {
                let taken = self.take_single(ticket, reply, is_last, at_ns, done);
                taken.inspect_err(|failure| {
                    if !is_last {
                        self.clients.framed.exchanges(index).leave();
                    }
                    self.clients.lose(ticket, failure.clone());
                })
            }
        }
    }

    /// Takes the replies to a pipeline, except the last, if their content doesn't matter.
    #[inline]
    fn take_run(&mut self, index: usize, bytes: &[u8]) -> usize {
        if self.cluster.is_some() {
            return 0;
        }
        let InFlight { context, framed, operations, .. } = &mut self.clients;
        let exchanges = framed.exchanges(index);
        let exchange = exchanges.first().filter(|exchange| exchange.replies > 1);
        let Some(exchange) = exchange else { return 0 };
        let Some(operation) = operations.get_mut(exchange.ticket as usize) else { return 0 };
        let (taken, replies) = operation.take_run(&context.dialect, bytes, exchange.replies - 1);
        exchanges.pass(replies);
        taken
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

    fn own_due_ns(&self) -> u64 {
        self.cluster.as_ref().map_or(u64::MAX, |cluster| cluster.due_ns(&self.clients))
    }
}

impl Session for RespSession {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        if let Err(failure) = self.begin(ticket, request) {
            self.clients.end_failed(ticket, failure);
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        if let Some(cluster) = &mut self.cluster {
            cluster.attend(&mut self.clients, done);
        }
        poll(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        match &mut self.cluster {
            Some(cluster) => cluster.give_up(ticket, &mut self.clients),
            None => self.clients.give_up(ticket),
        }
    }

    fn due_ns(&self) -> u64 {
        self.clients.framed.due_ns().min(self.own_due_ns())
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
