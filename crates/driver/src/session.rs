//! How a worker asks its system: by calls that hold its thread, or turn by turn.

use kvmark_plan::Outcome;

use crate::{Reply, Request};

/// A client's number within its worker's session, from 0. It has one request at a time.
pub type Ticket = u32;

/// A worker's session, of the kind that its driver's [`crate::Execution`] says.
#[derive(Debug)]
pub enum AnySession<B, S> {
    /// For one client on a thread of its own.
    Blocking(B),
    /// For many clients.
    Asynchronous(S),
}

/// The session of one client whose calls hold its thread.
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
/// The engine submits what is to be asked, then calls [`Session::turn`], again and again. Whatever
/// takes several steps, such as a scan over pages or a connection that is opened anew, goes on from
/// turn to turn.
pub trait Session {
    /// Whether it takes a request now. Not while the system takes nothing: what is submitted has to
    /// be kept until it is sent. A request that waits for room isn't drawn, encoded or issued, and
    /// the time until then is a part of its response time.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes a request: encodes what is to be sent, and sends nothing.
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>);

    /// Sends what was submitted, waits until something can be read, `patience_ns` at most, reads
    /// all there is, and hands over what was answered. Returns early when something was handed
    /// over, and may return early without. Whether anything was read: there may be more of it.
    ///
    /// All that is readable is read, and each read stamped, before the first answer is looked at:
    /// what is done with one client's answer must not be part of another's time.
    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool;

    /// Forgets a request under way: nothing of it is handed over any more, and the ticket may be
    /// submitted again at once.
    fn give_up(&mut self, ticket: Ticket);

    /// The instant before which it wants its next turn even if nothing can be read by then.
    fn due_ns(&self) -> u64 {
        u64::MAX
    }

    /// Addresses of the servers that owe an answer or can't be reached, for the user.
    fn awaited(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a session tells the engine during a turn. Instants are those of [`Completions::stamp`]: a
/// session reads no clock.
pub trait Completions {
    /// The present instant, in nanoseconds since the run began. To be taken directly before bytes
    /// are sent and directly after they were read.
    fn stamp(&mut self) -> u64;

    /// A request was sent, or tried to be: its bytes were handed over from this instant on. Told
    /// once for each request, before how it ended.
    fn issued(&mut self, ticket: Ticket, at_ns: u64);

    /// A request was carried out, by an answer that was read at this instant. The outcome is no
    /// failure, unless what was read is another than was expected.
    fn completed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, reply: &Reply);

    /// A request failed at this instant; `why` is a human-readable account without credentials. Of
    /// the reply only [`Reply::effects`] count: what is known of each command's write.
    fn failed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, why: &str, reply: &Reply);

    /// The session itself gave a request up at this instant, because it had waited for an answer as
    /// long as the driver's options allow.
    fn expired(&mut self, ticket: Ticket, at_ns: u64, why: &str) {
        self.failed(ticket, at_ns, Outcome::Timeout, why, &Reply::default());
    }

    /// A server sent something, whatever it is, that was read at this instant: also an answer to a
    /// request that was given up.
    fn heard(&mut self, _at_ns: u64) {}

    /// The bytes of a read that was stamped `read_ns` came to this machine at this instant of wall
    /// time, in nanoseconds since the Unix epoch. Told for a sample of reads, of those that held
    /// one whole reply: the kernel tells of the last bytes of a read only.
    fn arrived(&mut self, _kernel_wall_ns: u64, _read_ns: u64) {}
}

/// The session that a driver doesn't have.
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

    fn turn(&mut self, _: u64, _: &mut impl Completions) -> bool {
        match *self {}
    }

    fn give_up(&mut self, _: Ticket) {
        match *self {}
    }
}
