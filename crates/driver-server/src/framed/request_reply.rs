//! The session of a driver whose operations send requests, each with one reply in order.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Reply, Request, Session, Ticket};

use super::connections::{Framed, Lost};
use super::in_flight::{InFlight, InFlightOperation};
use super::ordered::{Ordered, OrderedExchange};
use super::poll::{Handler, poll};
use super::protocol::{ABANDONED, Protocol};
use crate::failure::Failure;
use crate::limits::Limits;

/// An operation with requests that are sent together, and others that follow one by one.
pub trait RequestReply: InFlightOperation {
    /// Begins an operation and plans its requests; without any, it has ended.
    ///
    /// # Errors
    /// The failure of an operation that can't be sent.
    fn begin(&mut self, request: &Request<'_>, context: &mut Self::Context) -> Result<(), Failure>;

    /// The number of requests that are sent together.
    fn requests(&self) -> usize;

    /// Index of the server of a request.
    #[inline]
    fn node(&self, _number: usize) -> usize {
        0
    }

    /// Encodes a request.
    fn put(
        &self,
        number: usize,
        request: &Request<'_>,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    );

    /// Takes the reply to a request. `single` stores the values of an operation with one.
    ///
    /// # Errors
    /// The failure of the operation, which closes the connection if it is one of the connection's.
    fn take(
        &mut self,
        number: usize,
        reply: &[u8],
        context: &mut Self::Context,
        single: &mut Reply,
    ) -> Result<(), Failure>;

    /// Whether another request follows after all replies have arrived. It must be encoded before
    /// another reply is taken.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Encodes that request, which goes to the server of the first one.
    fn put_more(&self, _context: &mut Self::Context, _output: &mut Vec<u8>) {}

    /// Whether the last reply announced the end of its connection.
    #[inline]
    fn closes(&self) -> bool {
        false
    }
}

/// A worker's session. Each client has a connection to each server, or all clients share a few.
pub struct RequestReplySession<P: Protocol, O: InFlightOperation> {
    clients: InFlight<P, O>,
}

impl<P: Protocol<Exchanges = Ordered>, O: RequestReply> RequestReplySession<P, O> {
    /// Connects to the servers.
    ///
    /// # Errors
    /// [`OpenError::System`] if one of them can't be opened.
    pub fn open(
        protocol: Arc<P>,
        targets: &[P::Target],
        limits: Limits,
        context: O::Context,
        clients: u32,
    ) -> Result<Self, OpenError> {
        let mut framed = Framed::new(protocol, limits.width(clients))?;
        for target in targets {
            framed.open(target)?;
        }
        Ok(Self { clients: InFlight::new(framed, context, clients, false) })
    }

    /// Encodes all requests of an operation; they go out with the next flush.
    #[inline]
    fn enter(&mut self, ticket: Ticket, request: &Request<'_>) {
        let operation = &mut self.clients.operations[ticket as usize];
        let count = operation.requests();
        operation.progress().outstanding = count as u32;
        for number in 0..count {
            let node = self.clients.operations[ticket as usize].node(number);
            let index = self.clients.framed.index(node, ticket);
            self.clients.enter(ticket, index, |operation, context, output| {
                operation.put(number, request, context, output);
                (1, number as u32)
            });
        }
    }

    /// Takes the reply to a request. An error closes the connection.
    #[inline]
    fn take_reply(
        &mut self,
        OrderedExchange { ticket, next: number, .. }: OrderedExchange,
        index: usize,
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
            operation.progress().failure.get_or_insert(failure);
        }
        operation.progress().outstanding -= 1;
        if operation.progress().outstanding > 0 {
            return Ok(());
        }
        let has_more = operation.progress().failure.is_none() && operation.has_more();
        let closes = operation.closes();
        if !has_more {
            self.clients.complete(ticket, at_ns, done);
        }
        if closes {
            self.clients.fail(index, &Failure::closed(false));
        }
        if has_more {
            let operation = &mut self.clients.operations[ticket as usize];
            operation.progress().outstanding = 1;
            let index = self.clients.framed.index(operation.node(0), ticket);
            self.clients.enter(ticket, index, |operation, context, output| {
                operation.put_more(context, output);
                (1, 0)
            });
        }
        Ok(())
    }
}

impl<P: Protocol<Exchanges = Ordered>, O: RequestReply> Handler<P> for RequestReplySession<P, O> {
    #[inline]
    fn framed(&mut self) -> &mut Framed<P> {
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
                self.take_reply(exchange, index, reply, at_ns, done)
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

impl<P: Protocol<Exchanges = Ordered>, O: RequestReply> Session for RequestReplySession<P, O> {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let InFlight { context, operations, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        match operation.begin(request, context) {
            Ok(()) if operation.requests() == 0 => self.clients.end(ticket),
            Ok(()) => self.enter(ticket, request),
            Err(failure) => self.clients.end_failed(ticket, failure),
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        poll(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        let InFlight { framed, operations, .. } = &mut self.clients;
        let operation = &operations[ticket as usize];
        if operation.requests() < 2 {
            return self.clients.give_up(ticket);
        }
        let index = |number| framed.index(operation.node(number), ticket);
        let indices: Vec<_> = (0..operation.requests()).map(index).collect();
        self.clients.give_up_all(ticket, indices);
    }

    fn due_ns(&self) -> u64 {
        self.clients.framed.due_ns()
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
