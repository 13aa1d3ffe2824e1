//! Monotonic time in nanoseconds since the run began, real or simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of instants. Clones share one origin.
pub(crate) trait Clock: Clone + Send + 'static {
    /// Name in records.
    const SOURCE: &'static str;

    fn now_ns(&self) -> u64;
}

/// A power of two, so that a stamp costs a product and no division; large, so that what rounding
/// takes is far below what the clock's own rate can be off.
const SCALE_TICKS: u64 = 1 << 32;

/// The machine's own clock, read from the time stamp counter where that is usable.
#[derive(Clone, Debug)]
pub(crate) struct RealClock {
    clock: quanta::Clock,
    origin: u64,
    /// Nanoseconds that [`SCALE_TICKS`] ticks take.
    scale_ns: u64,
}

impl RealClock {
    pub(crate) fn start() -> Self {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        let scale_ns = clock.delta_as_nanos(0, SCALE_TICKS);
        Self { clock, origin, scale_ns }
    }
}

impl Clock for RealClock {
    const SOURCE: &'static str = "tsc";

    #[inline]
    fn now_ns(&self) -> u64 {
        let ticks = self.clock.raw().saturating_sub(self.origin);
        // Below 2^64 for five hundred years.
        (u128::from(ticks) * u128::from(self.scale_ns) / u128::from(SCALE_TICKS)) as u64
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
