//! What a worker does when no client can go on.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::clock::VirtualClock;

/// The runtime's timers are a millisecond coarse, so that the last stretch before an instant is
/// polled. This is what precise issue costs: up to this much processor time per idle stretch.
const POLL_NS: u64 = 2_000_000;

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

/// A way to idle until an instant.
pub(crate) trait Idle {
    fn idle(&mut self, now_ns: u64, until_ns: u64, context: &mut Context<'_>) -> Idled;
}

/// Sleeps in the runtime until shortly before the instant, then polls.
#[derive(Debug)]
pub(crate) struct RuntimeIdle {
    sleep: Pin<Box<Sleep>>,
}

impl RuntimeIdle {
    /// Must be made within a runtime.
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }
}

impl Idle for RuntimeIdle {
    fn idle(&mut self, now_ns: u64, until_ns: u64, context: &mut Context<'_>) -> Idled {
        let left_ns = until_ns.saturating_sub(now_ns);
        if left_ns <= POLL_NS {
            context.waker().wake_by_ref();
            return Idled::Polling;
        }
        // Looks up now and then, because giving up a phase wakes nobody.
        let nap = Duration::from_nanos((left_ns - POLL_NS).min(50_000_000));
        self.sleep.as_mut().reset(Instant::now() + nap);
        if self.sleep.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
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
    fn idle(&mut self, _now_ns: u64, until_ns: u64, _context: &mut Context<'_>) -> Idled {
        self.clock.advance_to(until_ns);
        Idled::Advanced
    }
}
