//! A session's clients: what each is about, the connections they wait on, and how that ends.

use kvmark_driver::{Completions, Reply, Ticket};
use kvmark_driver_server::framed::NOBODY;
use kvmark_plan::Outcome;

use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, Operation, Shelf};

/// Whose exchange it is when the session itself waits, for the map of a cluster.
pub(crate) const MAP: Ticket = NOBODY - 1;

/// The operations of a session's clients and their connections.
pub(crate) struct Clients {
    pub(crate) dialect: Dialect,
    pub(crate) connections: Connections,
    /// By ticket.
    pub(crate) operations: Vec<Operation>,
    /// Whether an operation's replies come from several servers.
    pub(crate) in_cluster: bool,
    /// How operations ended that nobody was told of yet.
    pub(crate) ended: Vec<(Ticket, Result<Outcome, Failure>)>,
    /// Requests for the map of a cluster that ended with their connection.
    pub(crate) maps_lost: u32,
    pub(crate) shelf: Shelf,
    /// What was answered to an operation that has one answer.
    pub(crate) alone: Reply,
}

impl Clients {
    pub(crate) fn new(
        dialect: Dialect,
        connections: Connections,
        clients: u32,
        in_cluster: bool,
    ) -> Self {
        Self {
            dialect,
            connections,
            operations: (0..clients).map(|_| Operation::default()).collect(),
            in_cluster,
            ended: Vec::new(),
            maps_lost: 0,
            shelf: Shelf::new(),
            alone: Reply::default(),
        }
    }

    #[inline]
    pub(crate) fn operation(&mut self, ticket: Ticket) -> &mut Operation {
        &mut self.operations[ticket as usize]
    }

    /// Encodes what an operation on the only server sends next; it goes out with the next flush.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        ticket: Ticket,
        put: impl FnOnce(&mut Operation, &Dialect, &mut Vec<u8>) -> u32,
    ) {
        let Self { dialect, connections, operations, .. } = self;
        let index = connections.index(0, ticket);
        let operation = &mut operations[ticket as usize];
        operation.outstanding = 1;
        let entered = connections.enter(index, |exchanges, output| {
            let replies = put(operation, dialect, output);
            exchanges.enter(ticket, replies, 0)
        });
        match entered {
            Ok(place) => operation.place = place,
            Err(failure) => self.refuse(ticket, index, failure),
        }
    }

    /// Hands over how an operation ended, all of whose replies are taken.
    #[inline]
    pub(crate) fn complete(&mut self, ticket: Ticket, at_ns: u64, done: &mut impl Completions) {
        let operation = &mut self.operations[ticket as usize];
        let failure = operation.failure.take();
        let reply = operation.reply(&self.alone);
        match failure {
            None => done.completed(ticket, at_ns, operation.outcome(), reply),
            Some(Failure { outcome, text }) => done.failed(ticket, at_ns, outcome, &text, reply),
        }
        operation.end(&mut self.shelf);
    }

    /// Hands over how operations ended without a reply of their own.
    pub(crate) fn tell(&mut self, at_ns: u64, done: &mut impl Completions) {
        let mut ended = std::mem::take(&mut self.ended);
        for (ticket, result) in ended.drain(..) {
            let operation = &mut self.operations[ticket as usize];
            if operation.issue() {
                done.issued(ticket, at_ns);
            }
            operation.end(&mut self.shelf);
            self.alone.clear();
            match result {
                Ok(outcome) => done.completed(ticket, at_ns, outcome, &self.alone),
                Err(Failure { outcome, text }) => {
                    done.failed(ticket, at_ns, outcome, &text, &self.alone);
                }
            }
        }
        self.ended = ended;
    }

    /// A connection can't take an operation, nor anything else any more.
    pub(crate) fn refuse(&mut self, ticket: Ticket, index: usize, failure: Failure) {
        self.fail(index, &failure);
        self.lose(ticket, failure);
    }

    /// Closes a connection and ends every exchange on it. Somebody has the failure itself.
    pub(crate) fn fail(&mut self, index: usize, failure: &Failure) {
        for lost in self.connections.fail(index, failure, true) {
            self.lose(lost.ticket, lost.failure);
        }
    }

    /// Some replies to a ticket won't come; its operation has failed when no others are awaited.
    pub(crate) fn lose(&mut self, ticket: Ticket, failure: Failure) {
        if ticket == MAP {
            self.maps_lost += 1;
            return;
        }
        let operation = &mut self.operations[ticket as usize];
        if !self.in_cluster {
            // What the server refused before counts less.
            operation.failure = None;
        }
        operation.outstanding = operation.outstanding.saturating_sub(1);
        let first = operation.failure.take().unwrap_or(failure);
        if operation.outstanding == 0 {
            self.ended.push((ticket, Err(first)));
        } else {
            operation.failure = Some(first);
        }
    }
}
