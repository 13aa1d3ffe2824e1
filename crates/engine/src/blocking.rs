//! A client with its own thread: takes its next operation, waits until it is due, executes and
//! records it.

use std::cell::RefCell;
use std::time::Duration;

use kvmark_driver::{Blocking, Reply, Ticket};

use crate::clock::Clock;
use crate::first_record::FirstRecordWait;
use crate::operation::{Bound, Operation};
use crate::queue::{HandoffGuard, HandoffLock};
use crate::scheduled::{Executed, ScheduledOp};
use crate::sequence::PhaseSequence;
use crate::sleep::{Sleep, Until};
use crate::source::{Schedule, SharedArrivals, Source};
use crate::worker_recorder::WorkerRecorder;

/// Longest wait for other threads before a thread reads the clock again.
const LONGEST_WAIT_NS: u64 = 1_000_000_000;

/// The part of the time between shared arrivals for which their threads should poll.
const POLLED_PART: u64 = 8;

/// A client's thread during a phase sequence.
#[derive(Debug)]
pub(crate) struct ThreadClient<'a, C> {
    pub(crate) sequence: &'a PhaseSequence,
    pub(crate) recorder: &'a WorkerRecorder<'a>,
    pub(crate) clock: &'a C,
    pub(crate) sleep: RefCell<Sleep>,
    /// Identifies the client in its group.
    pub(crate) ticket: Ticket,
}

impl<C: Clock> ThreadClient<'_, C> {
    /// Runs a client of a group until the numbers are used up or the sequence ends.
    ///
    /// Not inlined: inlined into the worker, an operation takes nine more instructions.
    #[inline(never)]
    pub(crate) fn serve<B: Blocking>(&self, session: &mut B, source: &Source<'_>, group: usize) {
        let Self { sequence, recorder, clock, .. } = *self;
        let pulse = recorder.pulse();
        let mut operation = Operation::new(sequence, group, 0, recorder);
        let (mut reply, mut bound) = (Reply::default(), Bound::default());
        let mut unpaced = source.unpaced();
        operation.unpaced = unpaced.is_some();
        // A single client can't overtake another one.
        let shared = operation.is_taped() && source.claims().is_some();
        let Some(mut ready_ns) = self.begin(&mut operation, group) else { return };
        loop {
            let turn = if let Some(numbers) = &mut unpaced {
                let next = numbers.next(ready_ns).filter(|_| ready_ns < sequence.end_ns());
                let Some((phase, number)) = next else { break };
                ScheduledOp { phase, number, intended_ns: ready_ns }
            } else {
                let next = self.next_of_schedule(source, &mut operation, ready_ns);
                let Some(turn) = next else { break };
                turn
            };
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
                    // The driver has no message for failures that the engine found: late answers,
                    // wrong values.
                    let said = (answer == done.outcome).then(|| session.last_failure()).flatten();
                    recorder.note_failure(operation.phase(), done.outcome, said.as_deref());
                    (ended, ready_ns) = self.end_failed(&mut operation, done, &reply);
                } else {
                    ended = operation.end(done, reply.rows, &reply);
                    ready_ns = completed_ns;
                }
            }
            if shared {
                self.let_others_go_on(source, &operation);
            }
        }
    }

    /// Ends a failed request, or waits until its next attempt is due. Returns whether the operation
    /// is complete, and when the client was free.
    #[cold]
    #[inline(never)]
    fn end_failed(
        &self,
        operation: &mut Operation<'_>,
        done: Executed,
        reply: &Reply,
    ) -> (bool, u64) {
        match operation.retry(done, reply) {
            Some(due_ns) if self.wait_until(due_ns) => (false, due_ns),
            Some(_) => {
                operation.end_in_pause();
                (true, self.clock.now_ns())
            }
            None => (operation.end_failed(done, reply.rows, reply), done.completed_ns),
        }
    }

    /// The next operation when it is due; `None` after the last one, and when the sequence ends
    /// first. Only the thread that holds a shared tape waits for its next operation.
    #[inline(never)]
    fn next_of_schedule(
        &self,
        source: &Source<'_>,
        operation: &mut Operation<'_>,
        ready_ns: u64,
    ) -> Option<ScheduledOp> {
        if let Source::Indexed(arrivals) = source {
            return self.next_arrival(&mut arrivals.borrow_mut(), ready_ns);
        }
        let mut schedule = source
            .queue()
            .map(|queue| queue.try_enter().unwrap_or_else(|| self.wait_to_enter(queue)));
        let turn = match &mut schedule {
            Some(schedule) => schedule.take_next(ready_ns),
            None => source.next(ready_ns),
        }?;
        let is_due = if turn.intended_ns <= ready_ns {
            ready_ns < self.sequence.end_ns()
        } else {
            self.wait_until(turn.intended_ns)
        };
        if is_due && operation.is_taped() {
            self.take(schedule.as_deref(), source, operation);
        }
        is_due.then_some(turn)
    }

    /// As [`Self::next_of_schedule`], for shared arrivals. A thread takes an arrival and sleeps
    /// until it is due. If it is due too soon, one thread polls for it; others wait, without an
    /// arrival, until that thread has it.
    fn next_arrival(
        &self,
        arrivals: &mut SharedArrivals<'_>,
        ready_ns: u64,
    ) -> Option<ScheduledOp> {
        let (mut now_ns, mut polling) = (ready_ns, None);
        loop {
            let (index, turn) = arrivals.peek()?;
            let wait_ns = turn.intended_ns.saturating_sub(now_ns);
            let is_short = wait_ns > 0 && self.sleep.borrow().is_short(wait_ns);
            if is_short && polling.is_none() {
                let queue = arrivals.polling;
                polling = Some(queue.try_enter().unwrap_or_else(|| self.wait_to_enter(queue)));
                now_ns = self.clock.now_ns();
            } else if let Some(spacing_ns) = arrivals.take(index, &turn) {
                if turn.intended_ns <= ready_ns {
                    return (ready_ns < self.sequence.end_ns()).then_some(turn);
                }
                let _polling = polling.filter(|_| is_short);
                self.sleep.borrow_mut().limit_polling(spacing_ns / POLLED_PART);
                return self.wait_until(turn.intended_ns).then_some(turn);
            }
        }
    }

    /// A thread that waits for others still ends intervals.
    #[inline(never)]
    fn wait_to_enter<'s, T>(&self, queue: &'s HandoffLock<T>) -> HandoffGuard<'s, T> {
        loop {
            if let Some(value) = queue.enter_within(self.end_interval()) {
                return value;
            }
        }
    }

    /// Ends the interval if it is over, because nothing else does while the client waits. Returns
    /// the time until the next end.
    fn end_interval(&self) -> Duration {
        let now_ns = self.clock.now_ns();
        self.recorder.tick(now_ns);
        let left_ns = self.recorder.boundary_ns().saturating_sub(now_ns);
        Duration::from_nanos(left_ns.min(LONGEST_WAIT_NS))
    }

    /// Takes the operation's data from a tape, and its place in the order before other clients take
    /// theirs.
    #[inline(never)]
    fn take(
        &self,
        schedule: Option<&Schedule>,
        source: &Source<'_>,
        operation: &mut Operation<'_>,
    ) {
        operation.take(|taped_op, content| match schedule {
            Some(schedule) => schedule.give(taped_op, content),
            None => source.give(taped_op, content),
        });
        if let Some((claims, claim)) = source.claims().zip(operation.claim()) {
            claims.enter(self.ticket, claim);
        }
    }

    /// Waits for the operations that this one must not overtake.
    #[inline(never)]
    fn wait_for_others(&self, source: &Source<'_>, operation: &mut Operation<'_>) {
        let claims = source.claims().filter(|_| operation.claim().is_some());
        if let Some(claims) = claims.filter(|claims| claims.waits(self.ticket)) {
            while !claims.wait_within(self.ticket, self.end_interval()) {}
            operation.free_from(self.clock.now_ns());
        }
    }

    #[inline(never)]
    fn let_others_go_on(&self, source: &Source<'_>, operation: &Operation<'_>) {
        if let Some((claims, _)) = source.claims().zip(operation.claim()) {
            claims.leave(self.ticket);
        }
    }

    /// Waits for the sequence to begin, and for a first record to read. Returns when the client is
    /// free.
    fn begin(&self, operation: &mut Operation<'_>, group: usize) -> Option<u64> {
        let mut starting = FirstRecordWait::of(self.sequence, group);
        while self.wait_until(starting.at_ns) {
            if starting.may_begin(self.sequence) {
                operation.free_from(starting.at_ns);
                return Some(starting.at_ns);
            }
        }
        None
    }

    /// Waits for an instant; false when the sequence ends first.
    fn wait_until(&self, instant_ns: u64) -> bool {
        let mut sleep = self.sleep.borrow_mut();
        loop {
            let now_ns = self.clock.now_ns();
            let end_ns = self.sequence.end_ns();
            if now_ns >= instant_ns {
                return instant_ns < end_ns;
            }
            if now_ns >= end_ns {
                return false;
            }
            self.recorder.tick(now_ns);
            let until = Until { due_ns: instant_ns, chore_ns: self.recorder.boundary_ns() };
            let patience_ns = sleep.patience_ns(now_ns, until);
            if patience_ns > 0 {
                std::thread::sleep(Duration::from_nanos(patience_ns));
                sleep.woke(self.clock.now_ns());
            } else {
                let instant_ns = instant_ns.min(end_ns);
                while self.clock.now_ns() < instant_ns {
                    std::hint::spin_loop();
                }
                self.recorder.note_idle_spin(instant_ns - now_ns);
            }
        }
    }
}
