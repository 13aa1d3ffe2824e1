//! A client on a thread of its own: takes its next operation, waits until it is due, executes it,
//! writes it down.

use std::cell::Cell;
use std::time::Duration;

use kvmark_driver::{Blocking, Reply, Ticket};

use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::operation::{Bound, Operation};
use crate::phase::Stretch;
use crate::sleep::LOOK_UP_NS;
use crate::source::{Access, Source};
use crate::starting::Starting;

/// The kernel wakes a sleeping thread up to this late; the rest of a wait is polled.
const WAKE_SLACK_NS: u64 = 100_000;
/// How long a thread waits for others at most until it looks at the clock.
const LONGEST_WAIT_NS: u64 = 1_000_000_000;

/// A thread during a stretch.
#[derive(Debug)]
pub(crate) struct OnThread<'a, C> {
    pub(crate) stretch: &'a Stretch,
    pub(crate) ledger: &'a Ledger<'a>,
    pub(crate) clock: &'a C,
    /// Time polled away while nothing was to be done.
    pub(crate) idle_spin_ns: &'a Cell<u64>,
    /// By which its client is known to others of its group.
    pub(crate) ticket: Ticket,
}

impl<C: Clock> OnThread<'_, C> {
    /// Runs a client of a group until its numbers are used up or the stretch ends.
    ///
    /// A function of its own: as part of the worker an operation takes nine instructions more.
    #[inline(never)]
    pub(crate) fn serve<B: Blocking>(&self, session: &mut B, source: &Source<'_>, group: usize) {
        let Self { stretch, ledger, clock, .. } = *self;
        let pulse = ledger.pulse();
        let mut operation = Operation::new(stretch, group, 0, ledger);
        let (mut reply, mut bound) = (Reply::default(), Bound::default());
        let taped = stretch.legs[0].groups[group].taped;
        // Nobody is overtaken by a client that is alone.
        let shared = taped && source.turnstile().is_some();
        let Some(mut ready_ns) = self.begin(&mut operation, group) else { return };
        loop {
            // Where the place holds a lock only its holder waits for the next arrival.
            let mut place = self.enter(source);
            let Some(turn) = place.next(ready_ns) else { break };
            let in_time = if turn.intended_ns <= ready_ns {
                ready_ns < stretch.end_ns()
            } else {
                operation.write_down();
                self.wait_until(turn.intended_ns)
            };
            if taped && in_time {
                self.take(&place, source, &mut operation);
            }
            drop(place);
            if !in_time {
                break;
            }
            if shared {
                self.wait_for_others(source, &mut operation);
            }
            operation.begin(turn, &mut bound);
            let mut ended = false;
            while !ended {
                reply.clear();
                operation.begun_ns = ready_ns;
                let request = operation.request(&bound);
                let issued_ns = clock.now_ns();
                pulse.wait_since(issued_ns);
                let answer = session.execute(&request, &mut reply);
                let completed_ns = clock.now_ns();
                pulse.answer(completed_ns);
                operation.begun_ns = issued_ns;
                let done = operation.judge(issued_ns, completed_ns, Some(answer), &reply);
                if done.outcome.is_failure() {
                    // What the engine finds itself, late answers and wrong values, isn't theirs.
                    let said = (answer == done.outcome).then(|| session.last_failure()).flatten();
                    ledger.note_failure(operation.leg(), done.outcome, said.as_deref());
                }
                ended = operation.end(done, reply.rows, &reply);
                ready_ns = completed_ns;
            }
            if shared {
                self.let_others_go_on(source, &operation);
            }
            if source.may_block() {
                operation.write_down();
            }
        }
        operation.write_down();
    }

    /// The way to the next operation. Who has to wait for others ends intervals meanwhile.
    #[inline]
    fn enter<'s>(&self, source: &'s Source<'_>) -> Access<'s> {
        source.try_enter().unwrap_or_else(|| self.wait_to_enter(source))
    }

    #[inline(never)]
    fn wait_to_enter<'s>(&self, source: &'s Source<'_>) -> Access<'s> {
        loop {
            if let Some(place) = source.enter_within(self.end_interval()) {
                return place;
            }
        }
    }

    /// Ends the interval if it is over, which nothing else does while its client waits; how long
    /// the next one lasts. What the client did must be written down.
    fn end_interval(&self) -> Duration {
        let now_ns = self.clock.now_ns();
        self.ledger.tick(now_ns);
        let left_ns = self.ledger.boundary_ns().saturating_sub(now_ns);
        Duration::from_nanos(left_ns.min(LONGEST_WAIT_NS))
    }

    /// Takes what a tape says of the operation, and its place among others before these can take
    /// theirs.
    #[inline(never)]
    fn take(&self, place: &Access<'_>, source: &Source<'_>, operation: &mut Operation<'_>) {
        operation.take(place);
        if let Some((turnstile, claim)) = source.turnstile().zip(operation.claim()) {
            turnstile.enter(self.ticket, claim);
        }
    }

    /// Waits until the operation overtakes no other.
    #[inline(never)]
    fn wait_for_others(&self, source: &Source<'_>, operation: &mut Operation<'_>) {
        let claims = source.turnstile().filter(|_| operation.claim().is_some());
        if let Some(turnstile) = claims.filter(|turnstile| turnstile.waits(self.ticket)) {
            operation.write_down();
            while !turnstile.wait_within(self.ticket, self.end_interval()) {}
            operation.free_from(self.clock.now_ns());
        }
    }

    #[inline(never)]
    fn let_others_go_on(&self, source: &Source<'_>, operation: &Operation<'_>) {
        if let Some((turnstile, _)) = source.turnstile().zip(operation.claim()) {
            turnstile.leave(self.ticket);
        }
    }

    /// Waits for the stretch to begin, and for a first record to read; when the client is free.
    fn begin(&self, operation: &mut Operation<'_>, group: usize) -> Option<u64> {
        let mut starting = Starting::of(self.stretch, group);
        while self.wait_until(starting.at_ns) {
            if starting.may_begin(self.stretch) {
                operation.free_from(starting.at_ns);
                return Some(starting.at_ns);
            }
        }
        None
    }

    /// Waits for an instant; false when the stretch ends before it comes.
    fn wait_until(&self, instant_ns: u64) -> bool {
        loop {
            let now_ns = self.clock.now_ns();
            let end_ns = self.stretch.end_ns();
            if now_ns >= instant_ns {
                return instant_ns < end_ns;
            }
            if now_ns >= end_ns {
                return false;
            }
            self.ledger.tick(now_ns);
            let left_ns = instant_ns.min(end_ns) - now_ns;
            if left_ns > WAKE_SLACK_NS {
                let nap_ns = (left_ns - WAKE_SLACK_NS).min(LOOK_UP_NS);
                std::thread::sleep(Duration::from_nanos(nap_ns));
            } else {
                while self.clock.now_ns() < instant_ns.min(end_ns) {
                    std::hint::spin_loop();
                }
                self.idle_spin_ns.set(self.idle_spin_ns.get() + left_ns);
            }
        }
    }
}
