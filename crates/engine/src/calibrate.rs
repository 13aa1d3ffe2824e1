//! What the instrument itself costs.

use crate::clock::{Clock, RealClock};

/// Batches of stamps, and the stamps of each, taken to find their cost: a millisecond in all. A
/// batch is over long before a scheduler's turn is.
const BATCHES: u32 = 400;
const STAMPS: u32 = 100;

/// The cost and the grain of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Time that one stamp takes, in nanoseconds.
    pub stamp_ns: f64,
    /// Smallest step seen between two different stamps, in nanoseconds.
    pub resolution_ns: u64,
}

/// Measures the clock on this machine.
#[must_use]
pub fn calibrate() -> Calibration {
    measure(&RealClock::start())
}

/// What takes the core away for a while takes it from some batches: the quickest counts, or all
/// together where the clock's steps are longer than a batch.
pub(crate) fn measure<C: Clock>(clock: &C) -> Calibration {
    let begun_ns = clock.now_ns();
    let (mut quickest_ns, mut resolution_ns) = (u64::MAX, u64::MAX);
    let mut last_ns = begun_ns;
    for _ in 0..BATCHES {
        let start_ns = last_ns;
        for _ in 0..STAMPS {
            let now_ns = clock.now_ns();
            let step_ns = now_ns - last_ns;
            if step_ns > 0 {
                resolution_ns = resolution_ns.min(step_ns);
            }
            last_ns = now_ns;
        }
        if last_ns > start_ns {
            quickest_ns = quickest_ns.min(last_ns - start_ns);
        }
    }
    let quickest_ns = quickest_ns as f64 / f64::from(STAMPS);
    let all_ns = (last_ns - begun_ns) as f64 / f64::from(BATCHES * STAMPS);
    Calibration {
        stamp_ns: quickest_ns.min(all_ns),
        resolution_ns: if resolution_ns == u64::MAX { 0 } else { resolution_ns },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock whose stamps take 10 ns, but for one of so many, which takes a millisecond more: the
    /// scheduler gave the core to somebody else. It moves in steps.
    #[derive(Clone)]
    struct Disturbed {
        stamps: Arc<AtomicU64>,
        one_of: u64,
        step_ns: u64,
    }

    impl Clock for Disturbed {
        const SIMULATED: bool = true;

        fn source(&self) -> &'static str {
            "disturbed"
        }

        fn now_ns(&self) -> u64 {
            let stamps = self.stamps.fetch_add(1, Ordering::Relaxed);
            (stamps * 10 + stamps / self.one_of * 1_000_000) / self.step_ns * self.step_ns
        }
    }

    fn measured(one_of: u64, step_ns: u64) -> Calibration {
        measure(&Disturbed { stamps: Arc::default(), one_of, step_ns })
    }

    #[test]
    fn a_busy_machine_makes_no_stamp_dearer() {
        for one_of in [150, 1000, u64::MAX] {
            let found = measured(one_of, 1);
            assert!((found.stamp_ns - 10.0).abs() < 0.01, "{one_of}: {}", found.stamp_ns);
            assert_eq!(found.resolution_ns, 10);
        }
    }

    #[test]
    fn stamps_of_a_clock_with_long_steps_cost_what_all_of_them_take() {
        let found = measured(u64::MAX, 40_000);
        assert!((found.stamp_ns - 10.0).abs() < 1.01, "{}", found.stamp_ns);
        assert_eq!(found.resolution_ns, 40_000);
        assert_eq!(measured(u64::MAX, u64::MAX).resolution_ns, 0);
    }
}
