//! The operations in flight.
//!
//! An operation has exchanges on one connection or more. It ends when all of their replies have
//! arrived or are lost. The table keeps exchanges whose replies arrive in order; a protocol with
//! numbered exchanges keeps its own, because it retries and reroutes single ones.

use kvmark_driver::{Completions, Reply, Ticket};
use kvmark_plan::Outcome;

use super::connections::Framed;
use super::ordered::Ordered;
use super::protocol::Protocol;
use crate::failure::Failure;

/// The state of an operation that the table updates.
#[derive(Debug, Default)]
pub struct Progress {
    is_issued: bool,
    /// Exchanges, or groups of them, that aren't complete.
    pub outstanding: u32,
    /// The first failure so far.
    pub failure: Option<Failure>,
    /// Connection and number of the latest exchange.
    latest: (usize, u64),
}

/// An operation of a driver.
pub trait InFlightOperation: Default {
    /// State that the operations of a session share.
    type Context;

    /// Its progress.
    fn progress(&mut self) -> &mut Progress;

    /// The outcome when all replies have arrived and none is an error, and the values of the
    /// replies. `single` is the reply of an operation that one exchange completes.
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply);

    /// Ends the operation. The next one reuses its memory.
    #[inline]
    fn clear(&mut self, _context: &mut Self::Context) {}
}

/// The end of an operation without a last reply.
enum Ended {
    /// With the failure and the replies that the operation has.
    AsKnown,
    Failed(Failure),
    /// Its time limit has passed.
    Expired(String),
}

/// The operations of a session's clients, with their connections.
pub struct InFlight<P: Protocol, O: InFlightOperation> {
    /// The connections.
    pub framed: Framed<P>,
    /// State that the operations share.
    pub context: O::Context,
    /// The operations by ticket.
    pub operations: Vec<O>,
    /// The reply of an operation that one exchange completes.
    pub single: Reply,
    /// Lost exchanges that belong to the session itself, which have tickets beyond the clients'.
    pub lost_own: u32,
    /// Whether a lost connection outweighs an earlier error reply.
    loss_outweighs: bool,
    /// Results that weren't passed on yet.
    ended: Vec<(Ticket, Ended)>,
}

impl<P: Protocol, O: InFlightOperation> InFlight<P, O> {
    /// A table for this many clients.
    pub fn new(framed: Framed<P>, context: O::Context, clients: u32, loss_outweighs: bool) -> Self {
        let operations = (0..clients).map(|_| O::default()).collect();
        let (single, lost_own, ended) = (Reply::default(), 0, Vec::new());
        Self { framed, context, operations, single, lost_own, loss_outweighs, ended }
    }

    /// Marks an operation as issued. Returns whether it wasn't.
    #[inline]
    pub fn issue(&mut self, ticket: Ticket) -> bool {
        let operation = self.operations.get_mut(ticket as usize);
        operation
            .is_some_and(|operation| !std::mem::replace(&mut operation.progress().is_issued, true))
    }

    /// Passes on the result of an operation whose replies have all arrived.
    #[inline]
    pub fn complete(&mut self, ticket: Ticket, at_ns: u64, done: &mut impl Completions) {
        let Self { operations, single, context, .. } = self;
        let operation = &mut operations[ticket as usize];
        let failure = operation.progress().failure.take();
        let (outcome, reply) = operation.finish(single);
        match failure {
            None => done.completed(ticket, at_ns, outcome, reply),
            Some(Failure { outcome, text }) => done.failed(ticket, at_ns, outcome, &text, reply),
        }
        *operation.progress() = Progress::default();
        operation.clear(context);
    }

    /// Ends an operation with its replies and its failure, if any, so far.
    pub fn end(&mut self, ticket: Ticket) {
        self.end_as(ticket, Ended::AsKnown);
    }

    /// Ends an operation with a failure and without values.
    pub fn end_failed(&mut self, ticket: Ticket, failure: Failure) {
        self.end_as(ticket, Ended::Failed(failure));
    }

    /// Ends an operation whose time limit has passed.
    pub fn end_expired(&mut self, ticket: Ticket, text: String) {
        self.end_as(ticket, Ended::Expired(text));
    }

    fn end_as(&mut self, ticket: Ticket, ended: Ended) {
        self.operations[ticket as usize].progress().outstanding = 0;
        self.ended.push((ticket, ended));
    }

    /// Whether results weren't passed on yet.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Passes on the results of operations that ended without a last reply.
    pub fn report_ended(&mut self, at_ns: u64, done: &mut impl Completions) {
        let mut ended = std::mem::take(&mut self.ended);
        for (ticket, ended) in ended.drain(..) {
            if self.issue(ticket) {
                done.issued(ticket, at_ns);
            }
            self.single.clear();
            match ended {
                Ended::AsKnown => self.complete(ticket, at_ns, done),
                Ended::Failed(Failure { outcome, text }) => {
                    self.clear(ticket);
                    done.failed(ticket, at_ns, outcome, &text, &self.single);
                }
                Ended::Expired(text) => {
                    self.clear(ticket);
                    done.expired(ticket, at_ns, &text);
                }
            }
        }
        self.ended = ended;
    }

    /// Ends an operation without a result.
    pub fn forget(&mut self, ticket: Ticket) {
        self.ended.retain(|(other, _)| *other != ticket);
        self.clear(ticket);
    }

    fn clear(&mut self, ticket: Ticket) {
        let Self { operations, context, .. } = self;
        let operation = &mut operations[ticket as usize];
        *operation.progress() = Progress::default();
        operation.clear(context);
    }
}

impl<P: Protocol<Exchanges = Ordered>, O: InFlightOperation> InFlight<P, O> {
    /// Begins an exchange on a connection, whose bytes go out with the next flush. `put` appends
    /// the bytes and returns the number of replies and the number of the first one within the
    /// operation.
    #[inline]
    pub fn enter(
        &mut self,
        ticket: Ticket,
        index: usize,
        put: impl FnOnce(&mut O, &mut O::Context, &mut Vec<u8>) -> (u32, u32),
    ) {
        let Self { framed, context, operations, .. } = self;
        let operation = &mut operations[ticket as usize];
        let entered = framed.enter(index, |exchanges, output| {
            let (replies, next) = put(operation, context, output);
            exchanges.enter(ticket, replies, next)
        });
        match entered {
            Ok(number) => operation.progress().latest = (index, number),
            Err(failure) => self.refuse(ticket, index, failure),
        }
    }

    /// Fails a connection that rejected an exchange.
    pub fn refuse(&mut self, ticket: Ticket, index: usize, failure: Failure) {
        self.fail(index, &failure);
        self.lose(ticket, failure);
    }

    /// Closes a connection and loses all of its exchanges.
    pub fn fail(&mut self, index: usize, failure: &Failure) {
        for lost in self.framed.fail(index, failure, true) {
            self.lose(lost.ticket, lost.failure);
        }
    }

    /// Loses an exchange. The operation fails when no other is outstanding.
    pub fn lose(&mut self, ticket: Ticket, failure: Failure) {
        let Some(operation) = self.operations.get_mut(ticket as usize) else {
            self.lost_own += 1;
            return;
        };
        let progress = operation.progress();
        progress.outstanding = progress.outstanding.saturating_sub(1);
        let earlier = progress.failure.take().filter(|_| !self.loss_outweighs);
        let first = earlier.unwrap_or(failure);
        if progress.outstanding == 0 {
            self.end_failed(ticket, first);
        } else {
            progress.failure = Some(first);
        }
    }

    /// Gives up an operation with one exchange.
    pub fn give_up(&mut self, ticket: Ticket) {
        let progress = self.operations[ticket as usize].progress();
        let (outstanding, (index, number)) = (progress.outstanding, progress.latest);
        if outstanding > 0 {
            self.framed.give_up(index, number);
        }
        self.forget(ticket);
    }

    /// Gives up the exchanges of an operation on these connections.
    pub fn give_up_all(&mut self, ticket: Ticket, indices: impl IntoIterator<Item = usize>) {
        for index in indices {
            while let Some(number) = self.framed.exchanges(index).find(ticket) {
                self.framed.give_up(index, number);
            }
        }
        self.forget(ticket);
    }
}
