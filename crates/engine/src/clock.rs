//! Monotonic time in nanoseconds since the run began, real or simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of instants. Clones share one origin.
pub(crate) trait Clock: Clone + Send + 'static {
    /// Name in records.
    const SOURCE: &'static str;

    fn now_ns(&self) -> u64;
}

/// The machine's own clock, read from the time stamp counter where that is usable.
#[derive(Clone, Debug)]
pub(crate) struct RealClock {
    clock: quanta::Clock,
    origin: u64,
}

impl RealClock {
    pub(crate) fn start() -> Self {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        Self { clock, origin }
    }
}

impl Clock for RealClock {
    const SOURCE: &'static str = "tsc";

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.delta_as_nanos(self.origin, self.clock.raw())
    }
}

/// A clock that stands still until the executor has nothing else to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualClock {
    now_ns: Arc<AtomicU64>,
}

impl VirtualClock {
    pub(crate) fn advance_to(&self, instant_ns: u64) {
        self.now_ns.fetch_max(instant_ns, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    const SOURCE: &'static str = "virtual";

    #[inline]
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}
