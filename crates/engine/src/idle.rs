//! What a worker does when no client can go on.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, Sleep};

use crate::clock::VirtualClock;

/// The runtime's timers are a millisecond coarse, so that the last stretch before an instant is
/// polled. This is what precise issue costs: up to this much processor time per idle stretch.
const POLL_NS: u64 = 2_000_000;
/// How long a worker sleeps at most: giving up a phase wakes nobody.
const NAP_NS: u64 = 50_000_000;

/// How a worker idled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idled {
    /// Simulated time went on: look again at once.
    Advanced,
    /// The instant is near: the runtime looks after connections and comes back at once.
    Polling,
    /// The runtime wakes the worker when something happens.
    Asleep,
}

/// Has the task polled again once the runtime has run the others and looked after connections.
pub(crate) fn give_way(context: &mut Context<'_>) {
    // Its first poll only says so to the runtime.
    let _ = pin!(yield_now()).poll(context);
}

/// Until when a worker idles, unless it is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// An operation is due: met to the microsecond.
    pub(crate) due_ns: u64,
    /// There is something to look after, such as the end of an interval: may be a little late.
    pub(crate) chore_ns: u64,
}

impl Until {
    pub(crate) const fn due(due_ns: u64) -> Self {
        Self { due_ns, chore_ns: u64::MAX }
    }
}

/// A way to idle until an instant.
pub(crate) trait Idle: 'static {
    fn idle(&mut self, now_ns: u64, until: Until, context: &mut Context<'_>) -> Idled;
}

/// Sleeps in the runtime until shortly before the next operation is due, then polls.
#[derive(Debug)]
pub(crate) struct RuntimeIdle {
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends, on the worker's clock; none before it has begun.
    wakes_ns: Option<u64>,
}

impl RuntimeIdle {
    /// Must be made within a runtime.
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), wakes_ns: None }
    }
}

impl Idle for RuntimeIdle {
    fn idle(&mut self, now_ns: u64, until: Until, context: &mut Context<'_>) -> Idled {
        let left_ns = until.due_ns.saturating_sub(now_ns);
        if left_ns <= POLL_NS {
            give_way(context);
            return Idled::Polling;
        }
        // A chore isn't polled for: with few operations in flight that would be most of the work.
        let chore_ns = until.chore_ns.saturating_sub(now_ns);
        let nap_ns = (left_ns - POLL_NS).min(chore_ns).min(NAP_NS);
        // A sleep that ends too early does as well, and the runtime's timers cost more than looking
        // up once in vain: a worker whose connections wake it idles many times in one nap.
        let naps = now_ns..=now_ns + nap_ns;
        let serves = self.wakes_ns.is_some_and(|wakes_ns| naps.contains(&wakes_ns));
        if !serves || self.sleep.is_elapsed() {
            self.wakes_ns = Some(now_ns + nap_ns);
            self.sleep.as_mut().reset(Instant::now() + Duration::from_nanos(nap_ns));
            if self.sleep.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        Idled::Asleep
    }
}

/// Moves simulated time to the instant.
#[derive(Clone, Debug)]
pub(crate) struct VirtualIdle {
    pub(crate) clock: VirtualClock,
}

impl Idle for VirtualIdle {
    fn idle(&mut self, _now_ns: u64, until: Until, _context: &mut Context<'_>) -> Idled {
        self.clock.advance_to(until.due_ns.min(until.chore_ns));
        Idled::Advanced
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// How a worker idles at instant 0.
    fn idled(until: Until) -> Idled {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let idle =
            async { RuntimeIdle::new().idle(0, until, &mut Context::from_waker(Waker::noop())) };
        runtime.block_on(idle)
    }

    #[test]
    fn what_is_soon_due_is_polled_for_and_a_chore_is_not() {
        let soon_ns = POLL_NS / 2;
        assert_eq!(idled(Until { due_ns: soon_ns, chore_ns: u64::MAX }), Idled::Polling);
        assert_eq!(idled(Until { due_ns: u64::MAX, chore_ns: soon_ns }), Idled::Asleep);
        assert_eq!(idled(Until { due_ns: 2 * POLL_NS, chore_ns: soon_ns }), Idled::Asleep);
    }
}
