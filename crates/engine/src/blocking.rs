//! A client with its own thread: takes its next operation, waits until it is due, executes and
//! records it.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kvmark_driver::{Blocking, Reply, Ticket};

use crate::clock::Clock;
use crate::first_record::FirstRecordWait;
use crate::operation::{Bound, Operation};
use crate::scheduled::ScheduledOp;
use crate::sequence::PhaseSequence;
use crate::sleep::{Sleep, Until};
use crate::source::Source;
use crate::worker_recorder::WorkerRecorder;

/// Longest wait for other threads before a thread reads the clock again.
const LONGEST_WAIT_NS: u64 = 1_000_000_000;

/// A client's thread during a phase sequence.
#[derive(Debug)]
pub(crate) struct ThreadClient<'a, C> {
    pub(crate) sequence: &'a PhaseSequence,
    pub(crate) recorder: &'a WorkerRecorder<'a>,
    pub(crate) clock: &'a C,
    /// Time spent polling without work.
    pub(crate) idle_spin_ns: &'a Cell<u64>,
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
        let taped = sequence.phases[0].groups[group].taped;
        let is_polled = source.shared().map(|shared| &shared.is_polled);
        let Some(mut ready_ns) = self.begin(&mut operation, group) else { return };
        loop {
            let next = if taped {
                self.take(source, ready_ns, &mut operation)
            } else {
                source.next(ready_ns)
            };
            let Some(scheduled) = next else { break };
            let in_time = if scheduled.intended_ns <= ready_ns {
                ready_ns < sequence.end_ns()
            } else {
                operation.write_down();
                self.wait_until(scheduled.intended_ns, is_polled)
            };
            if !in_time || !self.wait_for_others(source, &mut operation) {
                self.let_others_go_on(source, &operation);
                break;
            }
            operation.begin(scheduled, &mut bound);
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
                }
                ended = operation.end(done, reply.rows, &reply);
                ready_ns = completed_ns;
            }
            self.let_others_go_on(source, &operation);
        }
        operation.write_down();
    }

    /// Ends the interval if it is over, because nothing else does while the client waits. Returns
    /// the time until the next end. The client's last operation must be recorded before.
    fn end_interval(&self) -> Duration {
        let now_ns = self.clock.now_ns();
        self.recorder.tick(now_ns);
        let left_ns = self.recorder.boundary_ns().saturating_sub(now_ns);
        Duration::from_nanos(left_ns.min(LONGEST_WAIT_NS))
    }

    /// Takes the next operation of a tape, and its place in the order before other clients take
    /// theirs.
    #[inline(never)]
    fn take(
        &self,
        source: &Source<'_>,
        ready_ns: u64,
        operation: &mut Operation<'_>,
    ) -> Option<ScheduledOp> {
        source.with_schedule(|schedule| {
            let next = operation.take_next(schedule, ready_ns);
            if let (Some(shared), Some(claim), Some(_)) = (source.shared(), operation.claim(), next)
            {
                shared.claims.enter(self.ticket, claim);
            }
            next
        })
    }

    /// Waits for the operations that this one must not overtake; false when the sequence ends
    /// first.
    #[inline]
    fn wait_for_others(&self, source: &Source<'_>, operation: &mut Operation<'_>) -> bool {
        let Some(shared) = source.shared().filter(|_| operation.claim().is_some()) else {
            return true;
        };
        if !shared.claims.waits(self.ticket) {
            return true;
        }
        operation.write_down();
        while !shared.claims.wait_within(self.ticket, self.end_interval()) {}
        let now_ns = self.clock.now_ns();
        operation.free_from(now_ns);
        now_ns < self.sequence.end_ns()
    }

    #[inline]
    fn let_others_go_on(&self, source: &Source<'_>, operation: &Operation<'_>) {
        if let Some((shared, _)) = source.shared().zip(operation.claim()) {
            shared.claims.leave(self.ticket);
        }
    }

    /// Waits for the sequence to begin, and for a first record to read. Returns when the client is
    /// free.
    fn begin(&self, operation: &mut Operation<'_>, group: usize) -> Option<u64> {
        let mut starting = FirstRecordWait::of(self.sequence, group);
        while self.wait_until(starting.at_ns, None) {
            if starting.may_begin(self.sequence) {
                operation.free_from(starting.at_ns);
                return Some(starting.at_ns);
            }
        }
        None
    }

    /// Waits for an instant; false when the sequence ends first. Polls the clock at the end, unless
    /// another thread does.
    fn wait_until(&self, instant_ns: u64, is_polled: Option<&AtomicBool>) -> bool {
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
            let left_ns = instant_ns.min(end_ns) - now_ns;
            if patience_ns > 0 {
                thread::sleep(Duration::from_nanos(patience_ns));
                sleep.woke(self.clock.now_ns());
            } else if is_polled.is_some_and(|is_polled| is_polled.swap(true, Ordering::Relaxed)) {
                thread::sleep(Duration::from_nanos(left_ns));
            } else {
                while self.clock.now_ns() < instant_ns.min(end_ns) {
                    std::hint::spin_loop();
                }
                self.idle_spin_ns.set(self.idle_spin_ns.get() + left_ns);
                if let Some(is_polled) = is_polled {
                    is_polled.store(false, Ordering::Relaxed);
                }
            }
        }
    }
}
