//! Monotonic time in nanoseconds since the run began, real or simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of instants. Clones share one origin.
pub(crate) trait Clock: Clone + Send + 'static {
    /// Whether time is simulated.
    const SIMULATED: bool;

    /// Name in records.
    fn source(&self) -> &'static str;

    fn now_ns(&self) -> u64;

    /// Advances simulated time to an instant; no effect on real time.
    fn skip_to(&self, _instant_ns: u64) {}
}

/// A power of two, so that a stamp needs a multiplication and no division; large, so that the
/// rounding error is far below the clock's own rate error.
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
    const SIMULATED: bool = false;

    /// Without a reliable counter, ticks are nanoseconds of the system's monotonic clock.
    fn source(&self) -> &'static str {
        if self.scale_ns == SCALE_TICKS { "monotonic" } else { "tsc" }
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        let ticks = self.clock.raw().saturating_sub(self.origin);
        // Below 2^64 for five hundred years.
        (u128::from(ticks) * u128::from(self.scale_ns) / u128::from(SCALE_TICKS)) as u64
    }
}

/// Wall time since the Unix epoch.
pub(crate) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A clock that advances only when a worker is idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualClock {
    now_ns: Arc<AtomicU64>,
}

impl Clock for VirtualClock {
    const SIMULATED: bool = true;

    fn source(&self) -> &'static str {
        "virtual"
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn skip_to(&self, instant_ns: u64) {
        self.now_ns.fetch_max(instant_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_reliable_counter_the_source_is_monotonic() {
        // The library's fallback counts nanoseconds.
        let ticks_in_ns = |scale_ns| RealClock { scale_ns, ..RealClock::start() };
        assert_eq!(ticks_in_ns(SCALE_TICKS).source(), "monotonic");
        assert_eq!(ticks_in_ns(SCALE_TICKS / 3).source(), "tsc");
    }
}
