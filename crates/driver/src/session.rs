//! The interface between a worker and its system: blocking calls, or turns for many clients.

use kvmark_plan::Outcome;

use crate::{Reply, Request};

/// A client's number within its worker's session, from 0. It has one request at a time.
pub type Ticket = u32;

/// A worker's session, of the kind of its driver's [`crate::Execution`].
#[derive(Debug)]
pub enum AnySession<B, S> {
    /// For one client with its own thread.
    Blocking(B),
    /// For many clients.
    Asynchronous(S),
}

/// The session of one client with blocking calls.
pub trait Blocking {
    /// Executes one request and fills the reply, which is empty.
    fn execute(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome;

    /// A human-readable account of the last failure, for notices; without credentials.
    fn last_failure(&self) -> Option<String> {
        None
    }
}

/// One worker's connections, for a driver that serves many clients at once.
///
/// The engine submits requests and calls [`Session::poll`] repeatedly. Work in several steps, such
/// as a scan over pages or a reconnect, continues from poll to poll.
pub trait Session {
    /// Whether the session takes a request now. False while the system accepts no data, because
    /// submitted requests are buffered until they are sent. A request that waits for room isn't
    /// drawn, encoded or issued, and the wait is part of its response time.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes a request and encodes it, without sending.
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>);

    /// Sends submitted requests, waits up to `patience_ns` for data, reads all available data, and
    /// reports the answers. Returns early after reporting an answer, and may return early without.
    /// Returns whether data was read, because there may be more.
    ///
    /// All available data is read, and each read stamped, before the first answer is processed: the
    /// processing of one client's answer must not add to another's time.
    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool;

    /// Drops a request in flight: it is never reported, and the ticket may be submitted again at
    /// once.
    fn give_up(&mut self, ticket: Ticket);

    /// The latest instant of the next turn, even without data.
    fn due_ns(&self) -> u64 {
        u64::MAX
    }

    /// Addresses of the servers with outstanding requests or failed connections, for the user.
    fn awaited(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A session's reports to the engine during a turn. Instants come from [`Completions::stamp`],
/// because a session reads no clock.
pub trait Completions {
    /// The current instant, in nanoseconds since the run began. Must be taken directly before
    /// sending bytes and directly after reading them.
    fn stamp(&mut self) -> u64;

    /// A request was sent, or sending was attempted, from this instant on. Called once for each
    /// request, before its end.
    fn issued(&mut self, ticket: Ticket, at_ns: u64);

    /// A request was executed, by an answer that was read at this instant. The outcome is no
    /// failure except [`Outcome::Mismatch`].
    fn completed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, reply: &Reply);

    /// A request failed at this instant; `why` is a human-readable reason without credentials. Only
    /// [`Reply::effects`] of the reply count.
    fn failed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, why: &str, reply: &Reply);

    /// The session gave a request up at this instant, because the time limit of the driver's
    /// options was reached.
    fn expired(&mut self, ticket: Ticket, at_ns: u64, why: &str) {
        self.failed(ticket, at_ns, Outcome::Timeout, why, &Reply::default());
    }

    /// Data from a server was read at this instant, possibly an answer to a request that was given
    /// up.
    fn heard(&mut self, _at_ns: u64) {}

    /// The bytes of a read that was stamped `read_ns` arrived in the kernel at this instant of wall
    /// time, in nanoseconds since the Unix epoch. Called for a sample of the reads with exactly one
    /// complete reply, because the kernel reports only the arrival of a read's last bytes.
    fn arrived(&mut self, _kernel_wall_ns: u64, _read_ns: u64) {}
}

/// The session type for a kind of session that a driver lacks.
#[derive(Debug)]
pub enum Never {}

impl Blocking for Never {
    fn execute(&mut self, _: &Request<'_>, _: &mut Reply) -> Outcome {
        match *self {}
    }
}

impl Session for Never {
    fn submit(&mut self, _: Ticket, _: &Request<'_>) {
        match *self {}
    }

    fn poll(&mut self, _: u64, _: &mut impl Completions) -> bool {
        match *self {}
    }

    fn give_up(&mut self, _: Ticket) {
        match *self {}
    }
}
