//! The session of a driver whose operations send requests, whose replies arrive in order.

use std::sync::Arc;

use kvmark_driver::{Completions, Never, OpenError, Reply, Request, Session, Ticket};

use super::connections::{Framed, Lost};
use super::in_flight::{InFlight, InFlightOperation};
use super::ordered::OrderedExchange;
use super::poll::{Handler, poll};
use super::protocol::{ABANDONED, Protocol};
use super::server::Server;
use crate::failure::Failure;
use crate::servers::Servers;

/// An operation with requests that are sent together, and others that follow one by one.
pub trait RequestReply: InFlightOperation {
    /// Whether a request may be a pipeline, with several replies. A lost connection then outweighs
    /// an error among the replies before it.
    const PIPELINES: bool = false;

    /// Begins an operation and plans its requests; without any, it has ended.
    ///
    /// # Errors
    /// The failure of an operation that can't be sent.
    fn begin(&mut self, request: &Request<'_>, context: &mut Self::Context) -> Result<(), Failure>;

    /// The number of requests that are sent together.
    #[inline]
    fn requests(&self) -> usize {
        1
    }

    /// The number of replies to each request, or to the one that [`Self::put_more`] encoded.
    #[inline]
    fn replies(&self) -> u32 {
        1
    }

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

    /// Takes up to `most` replies whose content doesn't matter. Returns their length and number.
    #[inline]
    fn take_run(&mut self, _context: &Self::Context, _bytes: &[u8], _most: u32) -> (usize, u32) {
        (0, 0)
    }

    /// Whether another request follows after all replies have arrived. It must be encoded before
    /// another reply is taken.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Encodes that request, which goes to the server of the first one.
    fn put_more(&mut self, _context: &mut Self::Context, _output: &mut Vec<u8>) {}

    /// Whether the last reply announced the end of its connection.
    #[inline]
    fn closes(&self) -> bool {
        false
    }
}

/// Sends the requests of a session's operations to servers that it learns from the servers.
///
/// The methods that aren't defined do nothing, for a session without a route.
pub trait Route<P: Protocol, O: InFlightOperation> {
    /// Sends the first requests of an operation.
    ///
    /// # Errors
    /// The failure of an operation that can't be sent.
    fn enter(
        &mut self,
        _clients: &mut InFlight<P, O>,
        _ticket: Ticket,
        _request: &Request<'_>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes a reply to an exchange of a connection.
    ///
    /// # Errors
    /// The failure that closes the connection.
    fn take(
        &mut self,
        _clients: &mut InFlight<P, O>,
        _: (OrderedExchange, usize),
        _reply: &[u8],
        _at_ns: u64,
        _done: &mut impl Completions,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Continues what waits for no reply, before each poll.
    fn attend(&mut self, _clients: &mut InFlight<P, O>, _done: &mut impl Completions) {}

    /// The instant by which it needs the next poll.
    fn due_ns(&self, _clients: &InFlight<P, O>) -> u64 {
        u64::MAX
    }

    /// Gives up an operation.
    fn give_up(&mut self, _clients: &mut InFlight<P, O>, _ticket: Ticket) {}
}

impl<P: Protocol, O: InFlightOperation> Route<P, O> for Never {}

/// A worker's session. Each client has a connection to each server, or all clients share a few.
pub struct RequestReplySession<P: Protocol, O: InFlightOperation, R = Never> {
    clients: InFlight<P, O>,
    route: Option<R>,
}

impl<P: Server, O: RequestReply, R: Route<P, O>> RequestReplySession<P, O, R> {
    /// Connects to the servers.
    ///
    /// # Errors
    /// [`OpenError::System`] if one of them can't be opened.
    pub fn open(protocol: &Arc<P>, context: O::Context, clients: u32) -> Result<Self, OpenError> {
        let Servers { targets, limits, .. } = protocol.servers();
        let mut framed = Framed::new(Arc::clone(protocol), limits.width(clients))?;
        for target in targets {
            framed.open(target)?;
        }
        let clients = InFlight::new(framed, context, clients, O::PIPELINES);
        Ok(Self { clients, route: None })
    }

    /// A session whose route has connected to the servers.
    pub fn routed(framed: Framed<P>, route: R, context: O::Context, clients: u32) -> Self {
        let clients = InFlight::new(framed, context, clients, false);
        Self { clients, route: Some(route) }
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
                (operation.replies(), number as u32)
            });
        }
    }

    /// Takes the reply to a request. An error closes the connection.
    #[inline]
    fn take_reply(
        &mut self,
        OrderedExchange { ticket, next: number, replies }: OrderedExchange,
        index: usize,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let InFlight { context, operations, single, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        if let Err(failure) = operation.take(number as usize, reply, context, single) {
            if failure.ends_connection() {
                if replies > 1 {
                    self.clients.framed.exchanges(index).leave();
                }
                self.clients.lose(ticket, failure.clone());
                return Err(failure);
            }
            operation.progress().failure.get_or_insert(failure);
        }
        if O::PIPELINES && replies > 1 {
            return Ok(());
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
                (operation.replies(), 0)
            });
        }
        Ok(())
    }
}

impl<P: Server, O: RequestReply, R: Route<P, O>> Handler<P> for RequestReplySession<P, O, R> {
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
        if !P::is_reply(reply) {
            return Ok(());
        }
        match (self.clients.framed.exchanges(index).answered(), &mut self.route) {
            (None | Some(OrderedExchange { ticket: ABANDONED, .. }), _) => Ok(()),
            (Some(exchange), None) => self.take_reply(exchange, index, reply, at_ns, done),
            (Some(exchange), Some(route)) => {
                route.take(&mut self.clients, (exchange, index), reply, at_ns, done)
            }
        }
    }

    /// Takes the replies to a pipeline, except the last, if their content doesn't matter.
    #[inline]
    fn take_run(&mut self, index: usize, bytes: &[u8]) -> usize {
        if !O::PIPELINES || self.route.is_some() {
            return 0;
        }
        let InFlight { context, framed, operations, .. } = &mut self.clients;
        let exchanges = framed.exchanges(index);
        let exchange = exchanges.first().filter(|exchange| exchange.replies > 1);
        let Some(exchange) = exchange else { return 0 };
        let Some(operation) = operations.get_mut(exchange.ticket as usize) else { return 0 };
        let (length, replies) = operation.take_run(context, bytes, exchange.replies - 1);
        exchanges.pass(replies);
        length
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
        self.route.as_ref().map_or(u64::MAX, |route| route.due_ns(&self.clients))
    }
}

impl<P: Server, O: RequestReply, R: Route<P, O>> Session for RequestReplySession<P, O, R> {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let InFlight { context, operations, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        if let Err(failure) = operation.begin(request, context) {
            return self.clients.end_failed(ticket, failure);
        }
        if operation.requests() == 0 {
            return self.clients.end(ticket);
        }
        let Some(route) = &mut self.route else { return self.enter(ticket, request) };
        if let Err(failure) = route.enter(&mut self.clients, ticket, request) {
            self.clients.end_failed(ticket, failure);
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        if let Some(route) = &mut self.route {
            route.attend(&mut self.clients, done);
        }
        poll(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        if let Some(route) = &mut self.route {
            return route.give_up(&mut self.clients, ticket);
        }
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
        self.clients.framed.due_ns().min(self.own_due_ns())
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
