//! Probes whether records exist.

use kvmark_driver::{
    AnySession, Blocking, Columns, Completions, Expected, Reply, Request, Session, Ticket, Values,
};
use kvmark_plan::{Kind, Outcome};
use kvmark_workload::{ArgumentBuffer, Stream};

use crate::clock::Clock;
use crate::operation::call;
use crate::pulse::Pulse;
use crate::sleep::LOOK_UP_NS;
use crate::worker_recorder::Probed;

/// A record to probe.
#[derive(Debug)]
pub(crate) struct Probe {
    key: Vec<u8>,
    /// The index and widths of the statement, if one is used.
    statement: Option<(u32, [u32; 3])>,
    arguments: ArgumentBuffer,
    expected: Option<Expected>,
}

impl Probe {
    /// A probe of a record, which must have the expected properties.
    pub(crate) fn new(stream: &Stream, ordinal: u64, expected: Option<Expected>) -> Self {
        let (mut key, mut arguments) = (Vec::new(), ArgumentBuffer::default());
        stream.records().key_into(ordinal, &mut key);
        let statement = stream.probe_into(ordinal, &mut arguments);
        Self { key, statement, arguments, expected }
    }

    fn request(&self) -> Request<'_> {
        Request {
            number: 0,
            at_us: 0,
            kind: Kind::Read,
            key: &self.key,
            columns: Columns::All,
            values: Values::NONE,
            scan_length: 0,
            wants_values: false,
            expected: self.expected.as_ref(),
            statement: self.statement.map(|(index, widths)| call(index, &self.arguments, widths)),
        }
    }
}

/// Probes all records. `limit_ns` bounds the wait for an answer. A blocking call has no limit, but
/// the pulse shows that it waits.
pub(crate) fn look<B: Blocking, S: Session, C: Clock>(
    records: &[Probe],
    session: &mut AnySession<B, S>,
    clock: &C,
    pulse: &Pulse,
    limit_ns: Option<u64>,
) -> Probed {
    let mut reply = Reply::default();
    for record in records {
        let request = record.request();
        let outcome = match session {
            AnySession::Blocking(session) => {
                reply.clear();
                pulse.wait_since(clock.now_ns());
                let outcome = session.execute(&request, &mut reply);
                pulse.answer(clock.now_ns());
                outcome
            }
            AnySession::Asynchronous(session) => match ask(session, &request, clock, limit_ns) {
                Some(outcome) => outcome,
                None => {
                    let awaited = session.awaited();
                    session.give_up(0);
                    return Probed::Silent { awaited };
                }
            },
        };
        match outcome {
            Outcome::Ok => {}
            Outcome::Mismatch => return Probed::Unlike,
            _ => return Probed::Missing,
        }
    }
    Probed::Present
}

/// The outcome of a request; `None` without an answer in time.
fn ask<S: Session, C: Clock>(
    session: &mut S,
    request: &Request<'_>,
    clock: &C,
    limit_ns: Option<u64>,
) -> Option<Outcome> {
    let mut answer = ProbeAnswer { clock, outcome: None };
    let late_ns = limit_ns.map_or(u64::MAX, |limit_ns| clock.now_ns().saturating_add(limit_ns));
    session.submit(0, request);
    loop {
        session.poll(if C::SIMULATED { 0 } else { LOOK_UP_NS }, &mut answer);
        if answer.outcome.is_some() || clock.now_ns() >= late_ns {
            return answer.outcome;
        }
        clock.skip_to(session.due_ns().min(late_ns));
    }
}

/// The answer to the single request in flight.
pub(crate) struct ProbeAnswer<'a, C> {
    pub(crate) clock: &'a C,
    pub(crate) outcome: Option<Outcome>,
}

impl<C: Clock> Completions for ProbeAnswer<'_, C> {
    fn stamp(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn issued(&mut self, _: Ticket, _: u64) {}

    fn completed(&mut self, _: Ticket, _: u64, outcome: Outcome, _: &Reply) {
        self.outcome = Some(outcome);
    }

    fn failed(&mut self, _: Ticket, _: u64, outcome: Outcome, _: &str, _: &Reply) {
        self.outcome = Some(outcome);
    }
}
