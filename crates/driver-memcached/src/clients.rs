//! A session's clients: what each is about, the connections they wait on, and how that ends.

use kvmark_driver::{Completions, Reply, Request, Ticket};
use kvmark_plan::Outcome;

use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, Operation};

/// The operations of a session's clients and their connections.
pub(crate) struct Clients {
    pub(crate) dialect: Dialect,
    pub(crate) connections: Connections,
    /// By ticket.
    pub(crate) operations: Vec<Operation>,
    /// How operations ended that nobody was told of yet.
    pub(crate) ended: Vec<(Ticket, Result<Outcome, Failure>)>,
    /// What was answered to an operation that has one part.
    pub(crate) alone: Reply,
}

impl Clients {
    /// Encodes all parts of an operation; they go out with the next flush.
    #[inline]
    pub(crate) fn enter(&mut self, ticket: Ticket, request: &Request<'_>) {
        let operation = &mut self.operations[ticket as usize];
        let parts = operation.parts.len();
        operation.outstanding = parts as u32;
        for part in 0..parts {
            let Self { dialect, connections, operations, .. } = self;
            let operation = &mut operations[ticket as usize];
            let index = connections.index(operation.parts[part].node, ticket);
            let entered = connections.enter(index, |exchanges, output| {
                operation.put(part, request, dialect, output);
                exchanges.enter(ticket, 1, part as u32)
            });
            match entered {
                Ok(place) => operation.at = (index, place),
                Err(failure) => self.refuse(ticket, index, failure),
            }
        }
    }

    /// Encodes what an operation of one part sends next.
    fn enter_more(&mut self, ticket: Ticket) {
        let Self { dialect, connections, operations, .. } = self;
        let operation = &mut operations[ticket as usize];
        let index = connections.index(operation.parts[0].node, ticket);
        operation.outstanding = 1;
        let entered = connections.enter(index, |exchanges, output| {
            operation.put_more(dialect, output);
            exchanges.enter(ticket, 1, 0)
        });
        match entered {
            Ok(place) => operation.at = (index, place),
            Err(failure) => self.refuse(ticket, index, failure),
        }
    }

    /// Takes a reply to a part of an operation. A failure is that of the connection.
    #[inline]
    pub(crate) fn take(
        &mut self,
        ticket: Ticket,
        part: u32,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let Self { dialect, operations, alone, .. } = self;
        let operation = &mut operations[ticket as usize];
        if let Err(failure) = operation.take(part as usize, reply, dialect, alone) {
            if failure.ends_connection() {
                self.lose(ticket, failure.clone());
                return Err(failure);
            }
            operation.failure.get_or_insert(failure);
        }
        operation.outstanding -= 1;
        if operation.outstanding == 0 {
            if operation.failure.is_none() && operation.has_more() {
                self.enter_more(ticket);
            } else {
                self.complete(ticket, at_ns, done);
            }
        }
        Ok(())
    }

    /// Hands over how an operation ended, all of whose replies are taken.
    #[inline]
    fn complete(&mut self, ticket: Ticket, at_ns: u64, done: &mut impl Completions) {
        let operation = &mut self.operations[ticket as usize];
        let failure = operation.failure.take();
        let outcome = operation.outcome(&mut self.alone);
        let reply = operation.reply(&self.alone);
        match failure {
            None => done.completed(ticket, at_ns, outcome, reply),
            Some(Failure { outcome, text }) => done.failed(ticket, at_ns, outcome, &text, reply),
        }
        operation.end();
    }

    /// Hands over how operations ended without a reply of their own.
    pub(crate) fn tell(&mut self, at_ns: u64, done: &mut impl Completions) {
        let mut ended = std::mem::take(&mut self.ended);
        for (ticket, result) in ended.drain(..) {
            let operation = &mut self.operations[ticket as usize];
            if operation.issue() {
                done.issued(ticket, at_ns);
            }
            operation.end();
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

    /// A connection can't take a part of an operation, nor anything else any more.
    fn refuse(&mut self, ticket: Ticket, index: usize, failure: Failure) {
        for lost in self.connections.fail(index, &failure, true) {
            self.lose(lost.ticket, lost.failure);
        }
        self.lose(ticket, failure);
    }

    /// A reply to a ticket won't come; its operation has failed when no others are awaited.
    pub(crate) fn lose(&mut self, ticket: Ticket, failure: Failure) {
        let operation = &mut self.operations[ticket as usize];
        operation.outstanding = operation.outstanding.saturating_sub(1);
        let first = operation.failure.take().unwrap_or(failure);
        if operation.outstanding == 0 {
            self.ended.push((ticket, Err(first)));
        } else {
            operation.failure = Some(first);
        }
    }

    /// Forgets a ticket's operation; replies to it are nobody's.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        self.ended.retain(|(other, _)| *other != ticket);
        let Self { connections, operations, .. } = self;
        let operation = &mut operations[ticket as usize];
        let (index, place) = operation.at;
        match (operation.outstanding, operation.parts.len()) {
            (0, _) => {}
            (_, 1) => connections.give_up(index, place),
            _ => {
                for part in &operation.parts {
                    let index = connections.index(part.node, ticket);
                    connections.give_up_all(index, ticket);
                }
            }
        }
        operation.end();
    }
}
