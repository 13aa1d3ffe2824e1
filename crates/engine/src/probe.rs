//! Whether records are there already.

use kvmark_driver::{
    AnySession, Blocking, Columns, Completions, Reply, Request, Session, Ticket, Values,
};
use kvmark_plan::{Kind, Outcome};
use kvmark_workload::{ArgumentBuffer, Stream};

use crate::clock::Clock;
use crate::operation::call;
use crate::sleep::LOOK_UP_NS;

/// A record to look for.
#[derive(Debug)]
pub(crate) struct Probe {
    key: Vec<u8>,
    /// Where a statement looks for it: its index and widths, and its arguments.
    statement: Option<(u32, [u32; 3])>,
    arguments: ArgumentBuffer,
}

impl Probe {
    pub(crate) fn new(stream: &Stream, ordinal: u64) -> Self {
        let (mut key, mut arguments) = (Vec::new(), ArgumentBuffer::default());
        stream.key_into(ordinal, &mut key);
        let statement = stream.probe_into(ordinal, &mut arguments);
        Self { key, statement, arguments }
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
            statement: self.statement.map(|(index, widths)| call(index, &self.arguments, widths)),
        }
    }
}

/// Whether every record is there. Takes as long as it takes.
pub(crate) fn are_there<B: Blocking, S: Session, C: Clock>(
    records: &[Probe],
    session: &mut AnySession<B, S>,
    clock: &C,
) -> bool {
    let mut reply = Reply::default();
    records.iter().all(|record| {
        let request = record.request();
        let outcome = match session {
            AnySession::Blocking(session) => {
                reply.clear();
                session.execute(&request, &mut reply)
            }
            AnySession::Asynchronous(session) => ask(session, &request, clock),
        };
        outcome == Outcome::Ok
    })
}

fn ask<S: Session, C: Clock>(session: &mut S, request: &Request<'_>, clock: &C) -> Outcome {
    let mut answer = Answer::new(clock);
    session.submit(0, request);
    loop {
        session.turn(if C::SIMULATED { 0 } else { LOOK_UP_NS }, &mut answer);
        if let Some(outcome) = answer.outcome {
            return outcome;
        }
        clock.skip_to(session.due_ns());
    }
}

/// The answer to the only request under way, if there is one.
pub(crate) struct Answer<'a, C> {
    clock: &'a C,
    outcome: Option<Outcome>,
}

impl<'a, C> Answer<'a, C> {
    pub(crate) fn new(clock: &'a C) -> Self {
        Self { clock, outcome: None }
    }
}

impl<C: Clock> Completions for Answer<'_, C> {
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
