//! The event loop of a worker with many clients.
//!
//! One iteration draws and submits new operations, flushes each connection once, sleeps until data
//! is readable or an operation is due, reads and stamps all readable data, records the answers, and
//! gives up requests that exceed their limit. The session does everything from the flush to the
//! answers in [`Session::poll`].
//!
//! A request is given up only after a read that started past its deadline. An answer that arrived
//! while the worker was delayed is still an answer, counted as read late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;

use kvmark_driver::{Completions, Deadlines, Reply, Session, Ticket};
use kvmark_plan::Outcome;
use kvmark_record::LATE_TOLERANCE_NS;

use crate::claims::ClaimTable;
use crate::clock::Clock;
use crate::first_record::FirstRecordWait;
use crate::lag::Anchor;
use crate::operation::{Bound, Operation};
use crate::pulse::Outstanding;
use crate::scheduled::ScheduledOp;
use crate::sequence::PhaseSequence;
use crate::sleep::{Sleep, Until};
use crate::source::Source;
use crate::worker_recorder::WorkerRecorder;

/// Most requests that are submitted in one iteration: answers that arrive in this time aren't
/// stamped.
const SUBMITTED_AT_ONCE: usize = 64;

/// The clients of a worker during a phase sequence.
pub(crate) struct ClientLoop<'a, C> {
    sequence: &'a PhaseSequence,
    recorder: &'a WorkerRecorder<'a>,
    clock: &'a C,
    /// By group; `None` if the worker has no client of the group.
    sources: Vec<Option<Source<'a>>>,
    /// By group; `None` if operations needn't keep an order.
    claim_tables: Vec<Option<ClaimTable>>,
    /// Tickets that were released and run next.
    freed: Vec<Ticket>,
    /// By ticket.
    clients: Vec<Client<'a>>,
    /// Clients that haven't ended.
    going: usize,
    /// Tickets that can run, in order.
    ready: VecDeque<Ticket>,
    /// Tickets that wait for an instant; first come, first served for equal instants.
    waiting: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    waited: u64,
    deadlines: Deadlines,
    /// Whether the session's last turn read any data.
    has_read: bool,
    /// Whether clients that are ready wait until the session has room.
    held_back: bool,
    outstanding: Outstanding<'a>,
    /// Requests that were submitted and aren't issued yet.
    unissued: usize,
    /// Steps of clients so far.
    steps: u64,
    away: AbsenceTimer,
    anchor: Anchor,
    bound: Bound,
    no_reply: Reply,
    /// The start of the current iteration.
    now_ns: u64,
}

struct Client<'a> {
    operation: Operation<'a>,
    group: usize,
    state: State,
    issued_ns: u64,
    /// The worker's total absence when the operation began.
    away_ns: u64,
}

impl Client<'_> {
    /// Takes the next operation from a tape. Breaks if it has to wait for others that it must not
    /// overtake.
    #[inline(never)]
    fn take(
        &mut self,
        ticket: Ticket,
        ready_ns: u64,
        sequence: &PhaseSequence,
        source: &Source<'_>,
        table: Option<&mut ClaimTable>,
    ) -> ControlFlow<(), Option<ScheduledOp>> {
        let next = self.operation.take(|taped_op, taped| source.take(ready_ns, taped_op, taped));
        if let (Some(turn), Some(table)) = (next, table)
            && (turn.intended_ns > ready_ns || ready_ns < sequence.end_ns())
            && !table.enter(ticket, self.operation.taped_op.claim)
        {
            self.state = State::Held(turn);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(next)
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before the first operation.
    FirstRecordWait(FirstRecordWait),
    /// Free since this instant.
    Free(u64),
    /// Has the next operation, which may not be due yet.
    Next(ScheduledOp),
    /// Has the next operation, which waits for others that it must not overtake.
    Held(ScheduledOp),
    /// The operation's next request must be submitted, when it is due: its second part, or another
    /// attempt.
    Part,
    UnderWay,
    Ended,
}

/// Measures the time in which the worker had work but didn't run.
#[derive(Debug, Default)]
struct AbsenceTimer {
    total_ns: u64,
    noticed_ns: u64,
    /// A worker that runs only after this instant was absent.
    latest_ns: u64,
}

impl AbsenceTimer {
    /// Sets when the worker has to run again.
    #[inline]
    fn set_due(&mut self, due_ns: u64) {
        // Starts at the last counted absence, so that no absence counts twice.
        self.latest_ns = due_ns.max(self.noticed_ns).saturating_add(LATE_TOLERANCE_NS);
    }

    /// Counts an absence if the worker runs later than the tolerance after it was due.
    #[inline]
    fn notice(&mut self, now_ns: u64) {
        if now_ns > self.latest_ns {
            self.count(now_ns);
        }
    }

    #[cold]
    fn count(&mut self, now_ns: u64) {
        self.total_ns += now_ns - (self.latest_ns - LATE_TOLERANCE_NS);
        self.noticed_ns = now_ns;
        self.set_due(now_ns);
    }
}

impl<'a, C: Clock> ClientLoop<'a, C> {
    pub(crate) fn new(
        sequence: &'a PhaseSequence,
        recorder: &'a WorkerRecorder<'a>,
        clock: &'a C,
        sources: Vec<Option<Source<'a>>>,
        seats: &[usize],
    ) -> Self {
        let client = |(ticket, group): (Ticket, &usize)| Client {
            operation: Operation::new(sequence, *group, ticket, recorder),
            group: *group,
            state: State::FirstRecordWait(FirstRecordWait::of(sequence, *group)),
            issued_ns: 0,
            away_ns: 0,
        };
        let limit_ns = sequence.timeout_ns.filter(|_| sequence.cancels);
        let mut clients = Self {
            sequence,
            recorder,
            clock,
            sources,
            claim_tables: claim_tables(sequence, seats.len()),
            freed: Vec::with_capacity(seats.len()),
            clients: (0..).zip(seats).map(client).collect(),
            going: seats.len(),
            ready: VecDeque::with_capacity(seats.len()),
            waiting: BinaryHeap::with_capacity(seats.len()),
            waited: 0,
            deadlines: Deadlines::new(seats.len(), limit_ns),
            has_read: false,
            held_back: false,
            outstanding: Outstanding::new(recorder.pulse()),
            unissued: 0,
            steps: 0,
            away: AbsenceTimer { latest_ns: u64::MAX, ..AbsenceTimer::default() },
            anchor: Anchor::default(),
            bound: Bound::default(),
            no_reply: Reply::default(),
            now_ns: 0,
        };
        for ticket in 0..seats.len() as Ticket {
            clients.wait_until(sequence.start_ns(), ticket);
        }
        clients
    }

    /// Serves all clients until each has ended, or the sequence is given up. If the system stopped
    /// answering, returns the servers with outstanding requests.
    pub(crate) fn serve<S: Session>(&mut self, session: &mut S) -> Vec<String> {
        let mut sleep = Sleep::new();
        let mut now_ns = self.clock.now_ns();
        while !self.sequence.is_given_up() {
            let steps = self.steps;
            self.recorder.tick(now_ns);
            self.away.notice(now_ns);
            self.wake(now_ns);
            self.now_ns = now_ns;
            self.submit(now_ns, session);
            if self.going == 0 {
                break;
            }
            let looked_ns = now_ns;
            now_ns = if C::SIMULATED {
                self.simulated_turn(now_ns, session)
            } else {
                // If no client made progress, all time since the last iteration was waiting.
                let idle_from_ns = (self.steps == steps).then_some(now_ns);
                self.turn(now_ns, idle_from_ns, session, &mut sleep)
            };
            if self.deadlines.are_over(looked_ns, self.has_read) {
                self.expire(looked_ns, now_ns, session);
            }
            self.outstanding.publish();
        }
        let stalled = self.sequence.has_stalled();
        let awaited = if stalled { session.awaited() } else { Vec::new() };
        for (ticket, client) in (0..).zip(&self.clients) {
            if matches!(client.state, State::UnderWay) {
                session.give_up(ticket);
                client.operation.abandon(self.clock.now_ns());
            }
        }
        awaited
    }

    /// Runs the session's turn until an operation is due. Returns the instant of its end.
    /// `idle_from_ns` is the start of the current idle time.
    fn turn<S: Session>(
        &mut self,
        now_ns: u64,
        idle_from_ns: Option<u64>,
        session: &mut S,
        sleep: &mut Sleep,
    ) -> u64 {
        let next_ns = self.next_due_ns();
        if !self.ready.is_empty() && !self.held_back {
            self.away.set_due(now_ns);
            self.has_read = session.poll(0, self);
            return self.clock.now_ns();
        }
        // Requests that are issued in this turn get their deadline only then.
        let limit_ns = if self.unissued > 0 { self.deadlines.of(now_ns) } else { u64::MAX };
        let until = Until {
            due_ns: next_ns.min(session.due_ns()),
            chore_ns: self.recorder.boundary_ns().min(self.deadlines.next_ns()).min(limit_ns),
        };
        let patience_ns = sleep.patience_ns(now_ns, until);
        self.away.set_due(next_ns.min(now_ns.saturating_add(patience_ns)));
        let polls_from_ns = idle_from_ns.filter(|_| sleep.polled() && self.unissued == 0);
        self.has_read = session.poll(patience_ns, self);
        let woke_ns = self.clock.now_ns();
        sleep.woke(woke_ns);
        if let Some(from_ns) = polls_from_ns.filter(|_| self.ready.is_empty()) {
            self.recorder.note_idle_spin(woke_ns - from_ns);
        }
        woke_ns
    }

    /// Runs the session's turn, and advances simulated time if no client can run.
    fn simulated_turn<S: Session>(&mut self, now_ns: u64, session: &mut S) -> u64 {
        let ready = self.ready.len();
        let idle = ready == 0 || self.held_back;
        self.away.set_due(self.next_due_ns());
        self.has_read = session.poll(0, self);
        if idle && self.ready.len() == ready {
            let stalls_ns = self.stalls_ns();
            if stalls_ns <= now_ns {
                self.sequence.stall(now_ns);
                return now_ns;
            }
            let chore_ns = self.recorder.boundary_ns().min(self.deadlines.next_ns()).min(stalls_ns);
            let due_ns = self.next_due_ns().min(session.due_ns());
            self.clock.skip_to(due_ns.min(chore_ns));
        }
        self.clock.now_ns()
    }

    /// When the stall limit is reached if the system sends no answer.
    fn stalls_ns(&self) -> u64 {
        let since_ns = self.sequence.stall_limit_ns.zip(self.outstanding.silent_since());
        since_ns.map_or(u64::MAX, |(limit_ns, since_ns)| since_ns.saturating_add(limit_ns))
    }

    /// The next instant for which a client waits.
    fn next_due_ns(&self) -> u64 {
        let due_ns = self.waiting.peek().map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns);
        due_ns.min(if self.waiting.is_empty() { u64::MAX } else { self.sequence.end_ns() })
    }

    fn wait_until(&mut self, instant_ns: u64, ticket: Ticket) {
        self.waiting.push(Reverse((instant_ns, self.waited, ticket)));
        self.waited += 1;
    }

    /// Ends the requests whose deadline had passed when the last read began.
    #[cold]
    fn expire<S: Session>(&mut self, looked_ns: u64, now_ns: u64, session: &mut S) {
        while let Some(ticket) = self.deadlines.take_due(looked_ns) {
            session.give_up(ticket);
            self.outstanding.give_up(now_ns);
            self.fail(ticket, now_ns, None, None);
        }
    }

    /// Makes the clients ready whose instant has come, and ends those whose instant is past the end
    /// of the sequence.
    fn wake(&mut self, now_ns: u64) {
        let end_ns = self.sequence.end_ns();
        while let Some(Reverse((due_ns, _, ticket))) = self.waiting.peek().copied() {
            if due_ns >= end_ns && now_ns >= end_ns {
                self.waiting.pop();
                let state = &mut self.clients[ticket as usize].state;
                let state = std::mem::replace(state, State::Ended);
                self.going -= 1;
                if matches!(state, State::Part) {
                    self.clients[ticket as usize].operation.end_in_pause();
                }
                if matches!(state, State::Part | State::Next(_)) {
                    self.release(ticket, now_ns);
                }
            } else if due_ns <= now_ns {
                self.waiting.pop();
                self.ready.push_back(ticket);
            } else {
                break;
            }
        }
    }

    /// Submits operations of ready clients while the session has room.
    fn submit<S: Session>(&mut self, now_ns: u64, session: &mut S) {
        if !session.has_room() {
            self.held_back = !self.ready.is_empty();
            return;
        }
        if self.held_back {
            self.end_hold(now_ns);
        }
        let (mut left, mut tickets) = (SUBMITTED_AT_ONCE, [0; SUBMITTED_AT_ONCE]);
        while left > 0 && !self.ready.is_empty() {
            // Taken together, which costs less than one by one.
            let (first, _) = self.ready.as_slices();
            let count = first.len().min(left);
            tickets[..count].copy_from_slice(&first[..count]);
            self.ready.drain(..count);
            self.steps += count as u64;
            for ticket in &tickets[..count] {
                left -= usize::from(self.go_on(*ticket, session));
            }
        }
        self.unissued += SUBMITTED_AT_ONCE - left;
    }

    /// The session has room again. The system, not the worker, kept the ready clients waiting.
    #[cold]
    fn end_hold(&mut self, now_ns: u64) {
        self.held_back = false;
        for ticket in &self.ready {
            let client = &mut self.clients[*ticket as usize];
            if !matches!(client.state, State::Part) {
                client.operation.free_from(now_ns);
            }
        }
    }

    /// Runs a client's next step. Returns whether it submitted a request.
    #[inline(always)]
    fn go_on<S: Session>(&mut self, ticket: Ticket, session: &mut S) -> bool {
        let client = &mut self.clients[ticket as usize];
        let turn = match client.state {
            State::FirstRecordWait(mut starting) => {
                let at_ns = starting.at_ns;
                if !starting.may_begin(self.sequence) {
                    client.state = State::FirstRecordWait(starting);
                    self.wait_until(starting.at_ns, ticket);
                    return false;
                }
                client.operation.free_from(at_ns);
                client.state = State::Free(at_ns);
                self.ready.push_back(ticket);
                return false;
            }
            State::Free(ready_ns) => {
                let source = self.sources[client.group].as_ref();
                let source =
                    source.expect("a group with a client on this worker has an arrival source");
                let next = if client.operation.is_taped() {
                    let table = self.claim_tables.get_mut(client.group).and_then(Option::as_mut);
                    match client.take(ticket, ready_ns, self.sequence, source, table) {
                        ControlFlow::Continue(next) => next,
                        ControlFlow::Break(()) => return false,
                    }
                } else {
                    source.next(ready_ns)
                };
                match next {
                    Some(turn) if turn.intended_ns > ready_ns => {
                        client.state = State::Next(turn);
                        self.wait_until(turn.intended_ns, ticket);
                        return false;
                    }
                    Some(turn) if ready_ns < self.sequence.end_ns() => turn,
                    _ => {
                        client.state = State::Ended;
                        self.going -= 1;
                        return false;
                    }
                }
            }
            State::Next(turn) => turn,
            State::Part => {
                client.state = State::UnderWay;
                client.operation.begun_ns = self.now_ns;
                session.submit(ticket, &client.operation.request(&self.bound));
                return true;
            }
            State::Held(_) | State::UnderWay | State::Ended => return false,
        };
        client.operation.begin(turn, &mut self.bound);
        client.away_ns = self.away.total_ns;
        client.state = State::UnderWay;
        client.operation.begun_ns = self.now_ns;
        session.submit(ticket, &client.operation.request(&self.bound));
        true
    }

    /// Ends a request. Without an answer it was given up.
    #[inline(always)]
    fn end(
        &mut self,
        ticket: Ticket,
        at_ns: u64,
        answer: Option<Outcome>,
        reply: &Reply,
        why: Option<&str>,
    ) {
        self.away.notice(at_ns);
        let client = &mut self.clients[ticket as usize];
        assert!(
            matches!(client.state, State::UnderWay),
            "a session ends each request in flight once"
        );
        let operation = &mut client.operation;
        let done = operation.judge(client.issued_ns, at_ns, answer, reply);
        if done.outcome.is_failure() {
            self.recorder.note_failure(operation.phase(), done.outcome, why);
            if let Some(due_ns) = operation.retry(done, reply) {
                client.state = State::Part;
                if due_ns > at_ns {
                    self.wait_until(due_ns, ticket);
                } else {
                    self.ready.push_back(ticket);
                }
                return;
            }
        }
        // A failed request has no rows.
        let rows = if why.is_some() { 0 } else { reply.rows };
        let is_complete = operation.end(done, rows, reply);
        client.state = if is_complete { State::Free(at_ns) } else { State::Part };
        if is_complete {
            if client.away_ns != self.away.total_ns {
                operation.forgive(self.away.total_ns - client.away_ns);
            }
            self.release(ticket, at_ns);
        }
        self.ready.push_back(ticket);
    }

    /// Ends a request that was given up, by the session if there is a reason.
    #[cold]
    fn fail(&mut self, ticket: Ticket, at_ns: u64, answer: Option<Outcome>, why: Option<&str>) {
        let reply = std::mem::take(&mut self.no_reply);
        self.end(ticket, at_ns, answer, &reply, why);
        self.no_reply = reply;
    }

    /// Releases the clients that waited for this client's operation.
    #[inline]
    fn release(&mut self, ticket: Ticket, at_ns: u64) {
        if !self.claim_tables.is_empty() {
            self.let_others_go_on(ticket, at_ns);
        }
    }

    #[inline(never)]
    fn let_others_go_on(&mut self, ticket: Ticket, at_ns: u64) {
        let group = self.clients[ticket as usize].group;
        let Some(table) = &mut self.claim_tables[group] else { return };
        let mut freed = std::mem::take(&mut self.freed);
        table.leave(ticket, &mut freed);
        for ticket in freed.drain(..) {
            let client = &mut self.clients[ticket as usize];
            let State::Held(turn) = client.state else { continue };
            client.operation.free_from(at_ns);
            client.state = State::Next(turn);
            // Past instants are queued, too, so that clients run in order.
            self.wait_until(turn.intended_ns.max(at_ns), ticket);
        }
        self.freed = freed;
    }
}

/// The claim tables by group, for this number of clients; empty if no group has one.
fn claim_tables(sequence: &PhaseSequence, clients: usize) -> Vec<Option<ClaimTable>> {
    let groups = &sequence.phases[0].groups;
    let ordered = groups.iter().filter(|_| groups.iter().any(|group| group.ordered));
    ordered.map(|group| group.ordered.then(|| ClaimTable::new(clients))).collect()
}

impl<C: Clock> Completions for ClientLoop<'_, C> {
    #[inline]
    fn stamp(&mut self) -> u64 {
        self.clock.now_ns()
    }

    #[inline]
    fn issued(&mut self, ticket: Ticket, at_ns: u64) {
        self.unissued -= 1;
        self.clients[ticket as usize].issued_ns = at_ns;
        self.outstanding.add(at_ns);
        self.deadlines.arm(ticket, at_ns);
    }

    #[inline]
    fn completed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, reply: &Reply) {
        self.deadlines.disarm(ticket);
        self.end(ticket, at_ns, Some(outcome), reply, None);
        self.outstanding.answer(at_ns);
    }

    #[inline(never)]
    fn failed(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, why: &str, reply: &Reply) {
        self.deadlines.disarm(ticket);
        self.end(ticket, at_ns, Some(outcome), reply, Some(why));
        // A server that can't be reached, or closes its connections, gave no answer.
        if outcome == Outcome::Connection {
            self.outstanding.give_up(at_ns);
        } else {
            self.outstanding.answer(at_ns);
        }
    }

    fn expired(&mut self, ticket: Ticket, at_ns: u64, why: &str) {
        self.deadlines.disarm(ticket);
        self.fail(ticket, at_ns, Some(Outcome::Timeout), Some(why));
        self.outstanding.give_up(at_ns);
    }

    #[inline]
    fn heard(&mut self, at_ns: u64) {
        self.outstanding.hear(at_ns);
    }

    fn arrived(&mut self, kernel_wall_ns: u64, read_ns: u64) {
        // Simulated time has no relation to the kernel's wall time.
        if !C::SIMULATED {
            let lag_ns = self.anchor.lag_ns(self.clock, kernel_wall_ns, read_ns);
            self.recorder.lag(read_ns, lag_ns);
        }
    }
}
