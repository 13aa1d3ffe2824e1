//! A worker that polls a session and records the results.

use std::time::{Duration, Instant};

use kvmark_driver::{AnySession, Completions, Driver, Reply, Session, Ticket};
use kvmark_driver_resp::Resp;
use kvmark_plan::{Kind, Outcome};

use crate::common::request;

/// Longer than any reply takes.
pub(crate) const PATIENCE_NS: u64 = 10_000_000_000;

/// A worker's session.
pub(crate) type RespSession = <Resp as Driver>::Session;

/// A session of this number of clients.
pub(crate) fn session_of(driver: &Resp, clients: u32) -> RespSession {
    match driver.session(clients).unwrap() {
        AnySession::Asynchronous(session) => session,
        AnySession::Blocking(never) => match never {},
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) ticket: Ticket,
    pub(crate) at_ns: u64,
    pub(crate) outcome: Outcome,
    /// The first value, or the failure text.
    pub(crate) text: String,
    /// The time of the result.
    pub(crate) handed_ns: u64,
}

/// The results of a worker that is busy for some time after each one.
pub(crate) struct Log {
    start: Instant,
    work: Duration,
    pub(crate) issued: Vec<(Ticket, u64)>,
    pub(crate) ended: Vec<Ended>,
    /// Arrival times of reads in wall time, with their stamps.
    pub(crate) arrived: Vec<(u64, u64)>,
}

impl Log {
    pub(crate) fn new(work: Duration) -> Self {
        let (issued, ended, arrived) = (Vec::new(), Vec::new(), Vec::new());
        Self { start: Instant::now(), work, issued, ended, arrived }
    }

    /// Clears the results; the time continues.
    pub(crate) fn clear(&mut self) {
        self.issued.clear();
        self.ended.clear();
        self.arrived.clear();
    }

    fn end(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, text: String) {
        let handed_ns = self.stamp();
        self.ended.push(Ended { ticket, at_ns, outcome, text, handed_ns });
        self.spin();
    }

    fn spin(&self) {
        let start = Instant::now();
        while start.elapsed() < self.work {
            std::hint::spin_loop();
        }
    }

    /// Outcome and text of a ticket's only result.
    pub(crate) fn of(&self, ticket: Ticket) -> (Outcome, &str) {
        let mut ends = self.ended.iter().filter(|ended| ended.ticket == ticket);
        let ended = ends.next().unwrap();
        assert_eq!(ends.next(), None);
        (ended.outcome, &ended.text)
    }
}

impl Completions for Log {
    fn stamp(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn issued(&mut self, ticket: Ticket, at_ns: u64) {
        self.issued.push((ticket, at_ns));
        self.spin();
    }

    fn completed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, reply: &Reply) {
        let first = reply.cells.first().map_or(&[][..], |cell| reply.bytes_of(cell));
        self.end(ticket, at_ns, outcome, String::from_utf8_lossy(first).into_owned());
    }

    fn failed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, why: &str, _: &Reply) {
        self.end(ticket, at_ns, outcome, why.to_owned());
    }

    fn arrived(&mut self, kernel_wall_ns: u64, read_ns: u64) {
        self.arrived.push((kernel_wall_ns, read_ns));
    }
}

/// Submits a read of a key.
pub(crate) fn submit(session: &mut RespSession, ticket: Ticket, key: &str) {
    session.submit(ticket, &request(Kind::Read, key));
}

/// Polls until this number of requests has ended.
pub(crate) fn poll_until(session: &mut RespSession, log: &mut Log, ended: usize) {
    while log.ended.len() < ended {
        session.poll(PATIENCE_NS.min(session.due_ns()), log);
    }
}
