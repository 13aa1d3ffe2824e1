//! A runtime's timers: for limits on connecting, for pauses, and for how a session waits that has a
//! runtime of its own. Nothing is measured by them.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

pub use tokio::time::{sleep, timeout};

/// The runtime's timers are a millisecond coarse, so that the last stretch before an instant is
/// polled. This is what coming back in time costs: up to this much processor time per wait.
const POLL_NS: u64 = 2_000_000;
/// How long a nap lasts at most: one is used again for many waits.
const NAP_NS: u64 = 50_000_000;

/// Sleeps in the runtime until shortly before an instant, then polls.
#[derive(Debug)]
pub struct Nap {
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends, on the engine's clock; none before it has begun.
    wakes_ns: Option<u64>,
}

impl Nap {
    /// Must be made within a runtime.
    #[expect(clippy::new_without_default, reason = "it can't be made anywhere")]
    #[must_use]
    pub fn new() -> Self {
        Self { sleep: Box::pin(sleep(Duration::ZERO)), wakes_ns: None }
    }

    /// Has the runtime wake the task at an instant of the engine's clock or earlier.
    pub fn until(&mut self, now_ns: u64, end_ns: u64, context: &mut Context<'_>) {
        let left_ns = end_ns.saturating_sub(now_ns);
        if left_ns <= POLL_NS {
            return context.waker().wake_by_ref();
        }
        let nap_ns = (left_ns - POLL_NS).min(NAP_NS);
        // A sleep that ends too early does as well, and the runtime's timers cost more than looking
        // up once in vain: a session whose connections wake it waits many times in one nap.
        let naps = now_ns..=now_ns.saturating_add(nap_ns);
        let serves = self.wakes_ns.is_some_and(|wakes_ns| naps.contains(&wakes_ns));
        if !serves || self.sleep.is_elapsed() {
            self.wakes_ns = Some(now_ns.saturating_add(nap_ns));
            self.sleep.as_mut().reset(Instant::now() + Duration::from_nanos(nap_ns));
            if self.sleep.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
    }
}

/// A pause that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Pause(Instant);

impl Pause {
    /// One of this length, from now on.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        Self(Instant::now() + length)
    }

    /// Whether its end has come.
    #[must_use]
    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Returns when it is over.
    pub async fn end(self) {
        sleep_until(self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Told(AtomicBool);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Whether who waits at instant 0 for this one is to look again at once.
    fn looks_again(end_ns: u64) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let told = Arc::new(Told::default());
        let waker = Waker::from(Arc::clone(&told));
        let wait = async { Nap::new().until(0, end_ns, &mut Context::from_waker(&waker)) };
        runtime.block_on(wait);
        told.0.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_near_is_polled_for_and_what_is_far_is_slept_for() {
        assert!(looks_again(0));
        assert!(looks_again(POLL_NS));
        assert!(!looks_again(POLL_NS * 100));
        assert!(!looks_again(u64::MAX));
    }
}
