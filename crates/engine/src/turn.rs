//! Many clients on one worker, turn by turn.
//!
//! A turn of the worker: new operations are drawn and submitted, each connection is flushed once,
//! the worker sleeps until something can be read or is due, what is readable is read and stamped,
//! what was answered is recorded, and who waits for too long is given up. The session does all from
//! the flush to the answers in [`Session::turn`].
//!
//! Nobody is given up before a look at what can be read that began when their time was up: what
//! came while the worker was away is an answer, and counted as read late.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use kvmark_driver::{Completions, Deadlines, Reply, Session, Ticket};
use kvmark_plan::Outcome;
use kvmark_record::LATE_TOLERANCE_NS;

use crate::clock::Clock;
use crate::lag::Anchor;
use crate::ledger::Ledger;
use crate::numbering::Turn;
use crate::operation::{Bound, Operation};
use crate::order::Order;
use crate::phase::Stretch;
use crate::pulse::Outstanding;
use crate::sleep::{Sleep, Until};
use crate::source::Source;
use crate::starting::Starting;

/// Requests that are submitted before the session has its turn again: what is answered meanwhile
/// isn't stamped.
const SUBMITTED_AT_ONCE: usize = 64;

/// The clients of a worker during a stretch.
pub(crate) struct Floor<'a, C> {
    stretch: &'a Stretch,
    ledger: &'a Ledger<'a>,
    clock: &'a C,
    /// Time polled away while nothing was to be done.
    idle_spin_ns: &'a Cell<u64>,
    /// One per group; none where the worker has no client of the group.
    sources: Vec<Option<Source<'a>>>,
    /// One per group; none where operations needn't keep an order.
    orders: Vec<Option<Order>>,
    /// Who was let go on, and is looked after next.
    freed: Vec<Ticket>,
    /// By ticket.
    clients: Vec<Client<'a>>,
    /// Clients that haven't ended.
    going: usize,
    /// Who can go on, in the order in which they came to it.
    ready: VecDeque<Ticket>,
    /// Who waits for an instant; of several at the same one who came first is first.
    waiting: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    waited: u64,
    deadlines: Deadlines,
    /// Whether the session's last turn read anything.
    has_read: bool,
    /// Whether clients that are ready wait until the session has room.
    held_back: bool,
    outstanding: Outstanding<'a>,
    /// Requests that were submitted and not issued yet.
    unissued: usize,
    /// Steps of clients so far.
    steps: u64,
    away: Away,
    anchor: Anchor,
    bound: Bound,
    no_reply: Reply,
    /// The present instant, before anything is submitted in this turn.
    now_ns: u64,
}

struct Client<'a> {
    operation: Operation<'a>,
    group: usize,
    state: State,
    issued_ns: u64,
    /// How long the worker had been away when its operation began.
    away_ns: u64,
}

impl Client<'_> {
    /// Takes its next operation from a tape, which may have to wait for others.
    #[inline(never)]
    fn take(
        &mut self,
        ticket: Ticket,
        ready_ns: u64,
        stretch: &Stretch,
        source: &Source<'_>,
        order: Option<&mut Order>,
    ) -> Step {
        let next = self.operation.take_next(source, ready_ns);
        if let (Some(turn), Some(order)) = (next, order)
            && (turn.intended_ns > ready_ns || ready_ns < stretch.end_ns())
            && !order.enter(ticket, self.operation.taken.claim)
        {
            self.state = State::Held(turn);
            return Step::Held;
        }
        Step::Next(next)
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Has had no operation yet.
    Starting(Starting),
    /// Free since an instant.
    Free(u64),
    /// Has its next operation, which may not be due yet.
    Next(Turn),
    /// Has its next operation, which must not overtake another.
    Held(Turn),
    /// The second part of its operation is to be submitted.
    Part,
    UnderWay,
    Ended,
}

/// What a tape has for a client.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Its next operation; none behind the last.
    Next(Option<Turn>),
    /// An operation that must not overtake another.
    Held,
}

/// Time in which the worker had something to do, or was to be back, and didn't come to it.
#[derive(Debug, Default)]
struct Away {
    total_ns: u64,
    noticed_ns: u64,
    /// When the worker was to be there again.
    due_ns: u64,
}

impl Away {
    /// If what is due is late by more than the tolerance, the worker was away.
    #[inline]
    fn notice(&mut self, now_ns: u64) {
        // From when it was noticed last, lest one absence be counted twice.
        let late_ns = now_ns.saturating_sub(self.due_ns.max(self.noticed_ns));
        if late_ns > LATE_TOLERANCE_NS {
            self.total_ns += late_ns;
            self.noticed_ns = now_ns;
        }
    }
}

impl<'a, C: Clock> Floor<'a, C> {
    pub(crate) fn new(
        stretch: &'a Stretch,
        ledger: &'a Ledger<'a>,
        clock: &'a C,
        idle_spin_ns: &'a Cell<u64>,
        sources: Vec<Option<Source<'a>>>,
        seats: &[usize],
    ) -> Self {
        let client = |(ticket, group): (Ticket, &usize)| Client {
            operation: Operation::new(stretch, *group, ticket, ledger),
            group: *group,
            state: State::Starting(Starting::of(stretch, *group)),
            issued_ns: 0,
            away_ns: 0,
        };
        let limit_ns = stretch.timeout_ns.filter(|_| stretch.cancels);
        let mut floor = Self {
            stretch,
            ledger,
            clock,
            idle_spin_ns,
            sources,
            orders: orders(stretch, seats.len()),
            freed: Vec::with_capacity(seats.len()),
            clients: (0..).zip(seats).map(client).collect(),
            going: seats.len(),
            ready: VecDeque::with_capacity(seats.len()),
            waiting: BinaryHeap::with_capacity(seats.len()),
            waited: 0,
            deadlines: Deadlines::new(seats.len(), limit_ns),
            has_read: false,
            held_back: false,
            outstanding: Outstanding::new(ledger.pulse()),
            unissued: 0,
            steps: 0,
            away: Away { due_ns: u64::MAX, ..Away::default() },
            anchor: Anchor::default(),
            bound: Bound::default(),
            no_reply: Reply::default(),
            now_ns: 0,
        };
        for ticket in 0..seats.len() as Ticket {
            floor.wait_until(stretch.start_ns(), ticket);
        }
        floor
    }

    /// Serves all clients until each has ended, or the stretch is given up. Returns the servers
    /// that owe an answer when the system doesn't answer any more.
    pub(crate) fn serve<S: Session>(&mut self, session: &mut S) -> Vec<String> {
        let mut sleep = Sleep::new();
        let mut now_ns = self.clock.now_ns();
        while !self.stretch.is_given_up() {
            let steps = self.steps;
            self.ledger.tick(now_ns);
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
                // Where no client went on, all since the last turn was waiting.
                let idle_from_ns = (self.steps == steps).then_some(now_ns);
                self.turn(now_ns, idle_from_ns, session, &mut sleep)
            };
            if self.deadlines.are_over(looked_ns, self.has_read) {
                self.expire(looked_ns, now_ns, session);
            }
            self.outstanding.publish();
        }
        let stalled = self.stretch.has_stalled();
        let awaited = if stalled { session.awaited() } else { Vec::new() };
        for (ticket, client) in (0..).zip(&self.clients) {
            if matches!(client.state, State::UnderWay) {
                session.give_up(ticket);
                client.operation.abandon(self.clock.now_ns());
            }
        }
        awaited
    }

    /// The session's turn, as long as nothing is due; when it is over. `idle_from_ns` says since
    /// when nothing was done.
    fn turn<S: Session>(
        &mut self,
        now_ns: u64,
        idle_from_ns: Option<u64>,
        session: &mut S,
        sleep: &mut Sleep,
    ) -> u64 {
        let next_ns = self.next_due_ns();
        if !self.ready.is_empty() && !self.held_back {
            self.away.due_ns = now_ns;
            self.has_read = session.turn(0, self);
            return self.clock.now_ns();
        }
        // What is issued in this turn has its limit only then.
        let limit_ns = if self.unissued > 0 { self.deadlines.of(now_ns) } else { u64::MAX };
        let until = Until {
            due_ns: next_ns.min(session.due_ns()),
            chore_ns: self.ledger.boundary_ns().min(self.deadlines.next_ns()).min(limit_ns),
        };
        let patience_ns = sleep.patience_ns(now_ns, until);
        self.away.due_ns = next_ns.min(now_ns.saturating_add(patience_ns));
        let polls_from_ns = idle_from_ns.filter(|_| sleep.polled() && self.unissued == 0);
        self.has_read = session.turn(patience_ns, self);
        let woke_ns = self.clock.now_ns();
        sleep.woke(woke_ns);
        if let Some(from_ns) = polls_from_ns.filter(|_| self.ready.is_empty()) {
            self.idle_spin_ns.set(self.idle_spin_ns.get() + (woke_ns - from_ns));
        }
        woke_ns
    }

    /// The session's turn; when nothing can go on then, time does.
    fn simulated_turn<S: Session>(&mut self, now_ns: u64, session: &mut S) -> u64 {
        let ready = self.ready.len();
        let idle = ready == 0 || self.held_back;
        self.away.due_ns = self.next_due_ns();
        self.has_read = session.turn(0, self);
        if idle && self.ready.len() == ready {
            let stalls_ns = self.stalls_ns();
            if stalls_ns <= now_ns {
                self.stretch.stall(now_ns);
                return now_ns;
            }
            let chore_ns = self.ledger.boundary_ns().min(self.deadlines.next_ns()).min(stalls_ns);
            let due_ns = self.next_due_ns().min(session.due_ns());
            self.clock.skip_to(due_ns.min(chore_ns));
        }
        self.clock.now_ns()
    }

    /// When the system will have answered nothing for too long, if it goes on answering nothing.
    fn stalls_ns(&self) -> u64 {
        let since_ns = self.stretch.stall_limit_ns.zip(self.outstanding.silent_since());
        since_ns.map_or(u64::MAX, |(limit_ns, since_ns)| since_ns.saturating_add(limit_ns))
    }

    /// When the next client wants to go on that waits for an instant.
    fn next_due_ns(&self) -> u64 {
        let due_ns = self.waiting.peek().map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns);
        due_ns.min(if self.waiting.is_empty() { u64::MAX } else { self.stretch.end_ns() })
    }

    fn wait_until(&mut self, instant_ns: u64, ticket: Ticket) {
        self.waiting.push(Reverse((instant_ns, self.waited, ticket)));
        self.waited += 1;
    }

    /// Ends the requests whose time was up when the last look began.
    #[cold]
    fn expire<S: Session>(&mut self, looked_ns: u64, now_ns: u64, session: &mut S) {
        while let Some(ticket) = self.deadlines.take_due(looked_ns) {
            session.give_up(ticket);
            self.outstanding.give_up(now_ns);
            self.fail(ticket, now_ns, None, None);
        }
    }

    /// Lets those go on whose instant has come, if late, and ends who waits for one that doesn't
    /// come any more.
    fn wake(&mut self, now_ns: u64) {
        let end_ns = self.stretch.end_ns();
        while let Some(Reverse((due_ns, _, ticket))) = self.waiting.peek().copied() {
            if due_ns >= end_ns && now_ns >= end_ns {
                self.waiting.pop();
                let state = &mut self.clients[ticket as usize].state;
                let has_next = matches!(std::mem::replace(state, State::Ended), State::Next(_));
                self.going -= 1;
                if has_next {
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

    /// Submits what may go, while the session has room.
    fn submit<S: Session>(&mut self, now_ns: u64, session: &mut S) {
        if !session.has_room() {
            self.held_back = !self.ready.is_empty();
            return;
        }
        if self.held_back {
            self.end_hold(now_ns);
        }
        let mut left = SUBMITTED_AT_ONCE;
        while left > 0
            && let Some(ticket) = self.ready.pop_front()
        {
            let submitted = usize::from(self.go_on(ticket, session));
            left -= submitted;
            self.unissued += submitted;
        }
    }

    /// The session has room again. Who is ready was kept waiting by the system, not the worker.
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

    /// A client's next step; whether it submitted a request.
    #[inline]
    fn go_on<S: Session>(&mut self, ticket: Ticket, session: &mut S) -> bool {
        self.steps += 1;
        let client = &mut self.clients[ticket as usize];
        let turn = match client.state {
            State::Starting(mut starting) => {
                let at_ns = starting.at_ns;
                if !starting.may_begin(self.stretch) {
                    client.state = State::Starting(starting);
                    self.wait_until(starting.at_ns, ticket);
                    return false;
                }
                client.operation.free_from(at_ns);
                client.state = State::Free(at_ns);
                return self.go_on(ticket, session);
            }
            State::Free(ready_ns) => {
                let source = self.sources[client.group].as_ref();
                let source = source.expect("whose seat it is, the arrivals are too");
                let next = if client.operation.is_taped() {
                    let order = self.orders[client.group].as_mut();
                    match client.take(ticket, ready_ns, self.stretch, source, order) {
                        Step::Next(next) => next,
                        Step::Held => return false,
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
                    Some(turn) if ready_ns < self.stretch.end_ns() => turn,
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

    /// A request has ended, or was given up where there is no answer.
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
        assert!(matches!(client.state, State::UnderWay), "a session ends what is under way, once");
        let operation = &mut client.operation;
        let done = operation.judge(client.issued_ns, at_ns, answer, reply);
        if done.outcome.is_failure() {
            self.ledger.note_failure(operation.leg(), done.outcome, why);
        }
        client.state = State::Part;
        // A request that failed concerned no record.
        let rows = if why.is_some() { 0 } else { reply.rows };
        if operation.end(done, rows, reply) {
            client.state = State::Free(at_ns);
            if client.away_ns != self.away.total_ns {
                operation.forgive(self.away.total_ns - client.away_ns);
            }
            operation.write_down();
            self.release(ticket, at_ns);
        }
        self.ready.push_back(ticket);
    }

    /// A request was given up, by the session if it says why.
    #[cold]
    fn fail(&mut self, ticket: Ticket, at_ns: u64, answer: Option<Outcome>, why: Option<&str>) {
        let reply = std::mem::take(&mut self.no_reply);
        self.end(ticket, at_ns, answer, &reply, why);
        self.no_reply = reply;
    }

    /// Lets those go on who waited for this client's operation, which has ended.
    #[inline]
    fn release(&mut self, ticket: Ticket, at_ns: u64) {
        let client = &self.clients[ticket as usize];
        if client.operation.is_taped()
            && let Some(order) = &mut self.orders[client.group]
        {
            order.leave(ticket, &mut self.freed);
            if !self.freed.is_empty() {
                self.let_go_on(at_ns);
            }
        }
    }

    #[inline(never)]
    fn let_go_on(&mut self, at_ns: u64) {
        let mut freed = std::mem::take(&mut self.freed);
        for ticket in freed.drain(..) {
            let client = &mut self.clients[ticket as usize];
            let State::Held(turn) = client.state else { continue };
            client.operation.free_from(at_ns);
            client.state = State::Next(turn);
            // An instant that has come is one to wait for, too: who came first goes first.
            self.wait_until(turn.intended_ns.max(at_ns), ticket);
        }
        self.freed = freed;
    }
}

/// Who must wait for whom, by group, among so many clients.
fn orders(stretch: &Stretch, clients: usize) -> Vec<Option<Order>> {
    let groups = stretch.legs[0].groups.iter();
    groups.map(|group| group.ordered.then(|| Order::new(clients))).collect()
}

impl<C: Clock> Completions for Floor<'_, C> {
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
        // Who can't be reached, or closes its connections, has answered nothing.
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
        // Simulated time is nobody else's.
        if !C::SIMULATED {
            let lag_ns = self.anchor.lag_ns(self.clock, kernel_wall_ns, read_ns);
            self.ledger.lag(read_ns, lag_ns);
        }
    }
}
