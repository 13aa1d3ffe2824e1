//! A client: takes its next operation, waits until it is due, executes it, writes it down.
//!
//! The same loop serves the closed and the open model, threads and tasks, real and simulated time.
//! In the open model a free client takes the next arrival and waits for it, so arrivals are issued
//! in order, and one that is late is issued all the same, with its intended start.

use kvmark_driver::{Reply, Session};

use crate::ledger::Ledger;
use crate::operation::Operation;
use crate::phase::{Seat, Stretch};
use crate::source::Source;
use crate::wait::Wait;

/// How long a reader waits at most until there is a record, and how often it looks.
const FIRST_RECORD_LIMIT_NS: u64 = 10_000_000_000;
const FIRST_RECORD_POLL_NS: u64 = 1_000_000;

/// What the clients of one worker have before them during a stretch.
#[derive(Debug)]
pub(crate) struct Desk<'a, S, W> {
    pub(crate) stretch: &'a Stretch,
    pub(crate) session: &'a S,
    pub(crate) wait: &'a W,
    pub(crate) ledger: &'a Ledger<'a>,
    /// One per group; none where the worker has no client of the group.
    pub(crate) sources: Vec<Option<Source<'a>>>,
}

/// Runs a client until its numbers are used up or the stretch ends.
pub(crate) async fn client<S: Session, W: Wait>(desk: &Desk<'_, S, W>, seat: Seat) {
    let Desk { stretch, session, wait, ledger, .. } = *desk;
    let source = desk.sources[seat.group].as_ref().expect("whose seat it is, the arrivals are too");
    let limit_ns = stretch.timeout_ns.filter(|_| stretch.cancels);
    let mut operation = Operation::new(stretch, seat.group, ledger);
    let mut reply = Reply::default();
    let mut ready_ns = stretch.start_ns();
    let mut in_time = wait.until(ready_ns, stretch).await;
    // Who only reads what others insert waits for the first record, though not for ever.
    let stream = &stretch.legs[0].groups[seat.group].stream;
    let patience_ns = ready_ns.saturating_add(FIRST_RECORD_LIMIT_NS);
    while in_time && ready_ns < patience_ns && !stream.can_begin(&stretch.inserts) {
        ready_ns += FIRST_RECORD_POLL_NS;
        in_time = wait.until(ready_ns, stretch).await;
        operation.free_from(ready_ns);
    }
    while in_time {
        // Where the place holds a lock the client has a thread of its own, so nothing suspends.
        let mut place = source.enter();
        let Some(turn) = place.next(ready_ns) else { break };
        in_time = if turn.intended_ns <= ready_ns {
            ready_ns < stretch.end_ns()
        } else {
            operation.write_down();
            wait.until(turn.intended_ns, stretch).await
        };
        drop(place);
        if !in_time {
            break;
        }
        operation.begin(turn);
        let away_ns = wait.away_ns();
        let mut waited = false;
        let mut ended = false;
        while !ended {
            let request = operation.request();
            reply.clear();
            let issued_ns = wait.now_ns();
            let within = wait.within(seat.client as usize, limit_ns, || {
                session.execute(seat.client, &request, &mut reply)
            });
            let within = within.await;
            let completed_ns = wait.now_ns();
            let done = operation.judge(issued_ns, completed_ns, within.output, &reply);
            if done.outcome.is_failure() {
                // What the engine finds itself, late answers and wrong values, isn't the session's.
                let is_sessions = within.output == Some(done.outcome);
                let said = if is_sessions { session.last_failure() } else { None };
                ledger.note_failure(operation.leg(), done.outcome, said);
            }
            ended = operation.end(done, reply.rows);
            ready_ns = completed_ns;
            waited |= within.waited;
        }
        if wait.away_ns() != away_ns {
            operation.forgive(wait.away_ns() - away_ns);
        }
        if source.may_block() || !waited {
            operation.write_down();
        }
        if !waited {
            wait.breathe().await;
        }
    }
    operation.write_down();
}
