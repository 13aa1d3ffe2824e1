//! Ends of operations by their session's reports: in parts, late, twice or never; and operations
//! while the session has no room.

use std::collections::{BTreeMap, VecDeque};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{closed, constant, plan, record};
use kvmark_driver::{
    AnySession, Capabilities, Completions, Description, Driver, Execution, Never, OpenError, Reply,
    Request, Session, Ticket,
};
use kvmark_engine::{Unobserved, run};
use kvmark_plan::{Kind, Outcome, Plan, Weight};
use kvmark_record::RunRecord;

const MS: u64 = 1_000_000;
const LIMIT_NS: u64 = 5 * MS;

/// A session's step in one turn, for a request that was sent before.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Nothing can be read.
    Finds(Nothing),
    /// A part of an answer is read.
    Reads,
    /// An answer is read.
    Answers(Outcome),
    /// An answer is read, and reported twice.
    AnswersTwice,
}

#[derive(Clone, Copy, Debug)]
enum Nothing {
    AtOnce,
    /// The worker's thread is delayed before the turn is over.
    AfterMs(u64),
}

const STALLS: Step = Step::Finds(Nothing::AfterMs(4 * LIMIT_NS / MS));

/// A system in which each request of a kind has the same steps; the last step is repeated.
#[derive(Clone, Copy, Debug)]
struct Scripted {
    read: &'static [Step],
    update: &'static [Step],
}

struct ScriptedSession {
    script: Scripted,
    submitted: Vec<(Ticket, Kind)>,
    going: VecDeque<(Ticket, &'static [Step])>,
}

impl Driver for Scripted {
    type Blocking = Never;
    type Session = ScriptedSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, true)
    }

    fn describe(&self) -> Description {
        let (system, version) = ("scripted".to_owned(), "1".to_owned());
        Description { system, version, configuration: BTreeMap::new() }
    }

    fn session(&self, _: u32) -> Result<AnySession<Never, ScriptedSession>, OpenError> {
        let (submitted, going) = (Vec::new(), VecDeque::new());
        Ok(AnySession::Asynchronous(ScriptedSession { script: *self, submitted, going }))
    }
}

impl Session for ScriptedSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        self.submitted.push((ticket, request.kind));
    }

    fn poll(&mut self, _: u64, done: &mut impl Completions) -> bool {
        let at_ns = done.stamp();
        for (ticket, kind) in self.submitted.drain(..) {
            done.issued(ticket, at_ns);
            let Scripted { read, update } = self.script;
            self.going.push_back((ticket, if kind == Kind::Read { read } else { update }));
        }
        let Some((ticket, steps)) = self.going.front_mut() else { return false };
        let ticket = *ticket;
        let step = steps[0];
        if let [_, rest @ ..] = *steps
            && !rest.is_empty()
        {
            *steps = rest;
        }
        let (at_ns, reply) = (done.stamp(), Reply { rows: 1, ..Reply::default() });
        match step {
            Step::Finds(Nothing::AtOnce) => return false,
            Step::Finds(Nothing::AfterMs(ms)) => {
                sleep(Duration::from_millis(ms));
                return false;
            }
            Step::Reads => {}
            Step::Answers(outcome) if outcome.is_failure() => {
                self.going.pop_front();
                done.failed(ticket, at_ns, outcome, "as the script has it", &Reply::default());
            }
            Step::Answers(outcome) => {
                self.going.pop_front();
                done.completed(ticket, at_ns, outcome, &reply);
            }
            Step::AnswersTwice => {
                done.completed(ticket, at_ns, Outcome::Ok, &reply);
                done.completed(ticket, at_ns, Outcome::Ok, &reply);
            }
        }
        true
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.going.retain(|(other, _)| *other != ticket);
    }
}

/// One client, a number of operations of a kind, and a time limit on each request.
fn operations(kind: Kind, operations: u64) -> Plan {
    let mut plan = plan(closed(), 1);
    plan.timeout_ns = Some(LIMIT_NS);
    plan.groups[0].mix = vec![Weight { kind, statement: None, weight: 1.0 }];
    plan.phases[0].groups[0].operations = Some(operations);
    plan
}

/// Number of complete operations with an outcome.
fn count(record: &RunRecord, outcome: Outcome) -> u64 {
    let totals = record.totals.iter().filter(|total| !total.part && total.outcome == outcome);
    totals.map(|total| total.count).sum()
}

/// Reads with these steps: how many were successful, timed out, and were read late.
fn reads(read: &'static [Step]) -> (u64, u64, u64) {
    let record = record(&operations(Kind::Read, 3), Scripted { read, update: &[] });
    let late = record.phases[0].groups[0].read_late;
    (count(&record, Outcome::Ok), count(&record, Outcome::Timeout), late)
}

#[test]
fn a_read_modify_write_ends_as_the_worse_of_its_parts() {
    for (read, update, expected) in [
        (Outcome::Ok, Outcome::Ok, Outcome::Ok),
        (Outcome::Miss, Outcome::Ok, Outcome::Miss),
        (Outcome::Ok, Outcome::Miss, Outcome::Miss),
        (Outcome::Miss, Outcome::Unavailable, Outcome::Unavailable),
        (Outcome::Miss, Outcome::Connection, Outcome::Connection),
        (Outcome::Refused, Outcome::Ok, Outcome::Refused),
    ] {
        let answers = |outcome| &*vec![Step::Answers(outcome)].leak();
        let driver = Scripted { read: answers(read), update: answers(update) };
        let record = record(&operations(Kind::ReadModifyWrite, 5), driver);
        assert_eq!(count(&record, expected), 5, "{read:?}, then {update:?}");
    }
}

#[test]
fn an_answer_that_came_while_the_worker_was_away_is_no_timeout_and_counted_as_read_late() {
    assert_eq!(reads(&[STALLS, Step::Answers(Outcome::Ok)]), (3, 0, 3));
}

#[test]
fn an_answer_that_takes_several_reads_after_a_stall_is_no_timeout_either() {
    let steps = &[STALLS, Step::Reads, Step::Reads, Step::Reads, Step::Answers(Outcome::Ok)];
    assert_eq!(reads(steps), (3, 0, 3));
}

#[test]
fn an_answer_that_is_missing_after_a_delay_is_a_timeout() {
    assert_eq!(reads(&[STALLS, Step::Finds(Nothing::AtOnce)]), (0, 3, 0));
    assert_eq!(reads(&[Step::Finds(Nothing::AtOnce)]), (0, 3, 0));
}

#[test]
fn a_server_that_sends_on_and_on_is_not_waited_for_beyond_the_limit() {
    assert_eq!(reads(&[STALLS, Step::Reads]), (0, 3, 0));
    assert_eq!(reads(&[Step::Reads]), (0, 3, 0));
}

#[test]
fn a_session_that_ends_a_request_twice_ends_the_run() {
    let driver = Scripted { read: &[Step::AnswersTwice], update: &[] };
    let folder = tempfile::tempdir().unwrap();
    let ended = run(&operations(Kind::Read, 3), driver, folder.path(), None, &mut Unobserved);
    let text = match ended {
        Ok(completed) => completed.failure.expect("the run has failed").to_string(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains("a session ends each request in flight once"), "{text}");
}

/// A system that answers at once, and has no room in two of three turns, or for a while.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    full_for: Duration,
}

struct NarrowSession {
    turns: u64,
    full_for: Duration,
    /// When the first request came.
    begun: Option<Instant>,
    submitted: Vec<Ticket>,
}

impl Driver for Narrow {
    type Blocking = Never;
    type Session = NarrowSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, true)
    }

    fn describe(&self) -> Description {
        let (system, version) = ("narrow".to_owned(), "1".to_owned());
        Description { system, version, configuration: BTreeMap::new() }
    }

    fn session(&self, _: u32) -> Result<AnySession<Never, NarrowSession>, OpenError> {
        let (full_for, submitted) = (self.full_for, Vec::new());
        let session = NarrowSession { turns: 0, full_for, begun: None, submitted };
        Ok(AnySession::Asynchronous(session))
    }
}

impl Session for NarrowSession {
    fn has_room(&self) -> bool {
        let is_over = self.begun.is_some_and(|begun| begun.elapsed() >= self.full_for);
        self.turns.is_multiple_of(3) && is_over
    }

    fn submit(&mut self, ticket: Ticket, _: &Request<'_>) {
        assert!(self.has_room());
        self.submitted.push(ticket);
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        self.begun.get_or_insert_with(Instant::now);
        if !self.has_room() {
            // The kernel times the wait: a delayed client doesn't poll.
            sleep(Duration::from_nanos(patience_ns.min(MS)));
        }
        self.turns += 1;
        let at_ns = done.stamp();
        let any = !self.submitted.is_empty();
        for ticket in self.submitted.drain(..) {
            done.issued(ticket, at_ns);
            done.completed(ticket, at_ns, Outcome::Ok, &Reply::default());
        }
        any
    }

    fn give_up(&mut self, _: Ticket) {}
}

#[test]
fn a_session_without_room_is_asked_for_nothing_and_no_operation_is_lost() {
    let mut plan = plan(closed(), 8);
    plan.phases[0].groups[0].operations = Some(200);
    let record = record(&plan, Narrow { full_for: Duration::ZERO });
    let group = &record.phases[0].groups[0];
    assert_eq!((group.issued, group.ok, group.abandoned), (200, 200, 0));
}

#[test]
fn an_operation_that_waits_for_room_is_late_because_of_the_system() {
    let mut plan = plan(constant(1_000.0), 64);
    plan.phases[0].duration_ns = Some(1_000 * MS);
    let record = record(&plan, Narrow { full_for: Duration::from_millis(400) });
    let group = &record.phases[0].groups[0];
    assert!(group.late_busy >= 50, "{group:?}");
}
