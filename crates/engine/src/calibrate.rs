//! The engine's own cost per stamp.

use kvmark_record::ClockRecord;

use crate::clock::{Clock, RealClock};

/// Number of batches, and of stamps per batch, to measure the cost: a millisecond in total. A batch
/// is far shorter than a scheduler's time slice.
const BATCHES: u32 = 400;
const STAMPS: u32 = 100;

/// Measures the clock on this machine.
#[must_use]
pub fn calibrate() -> ClockRecord {
    measure(&RealClock::start())
}

/// Preemption affects only some batches, so the quickest batch counts. If the clock's steps are
/// longer than a batch, the mean of all batches counts.
pub(crate) fn measure<C: Clock>(clock: &C) -> ClockRecord {
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
    ClockRecord {
        source: clock.source().to_owned(),
        stamp_ns: quickest_ns.min(all_ns),
        resolution_ns: if resolution_ns == u64::MAX { 0 } else { resolution_ns },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock whose stamps take 10 ns, except one of `one_of`, which takes a millisecond more
    /// because the thread was preempted. It moves in steps.
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

    fn measured(one_of: u64, step_ns: u64) -> ClockRecord {
        measure(&Disturbed { stamps: Arc::default(), one_of, step_ns })
    }

    #[test]
    fn a_busy_machine_does_not_raise_the_cost_of_a_stamp() {
        for one_of in [150, 1000, u64::MAX] {
            let found = measured(one_of, 1);
            assert!((found.stamp_ns - 10.0).abs() < 0.01, "{one_of}: {}", found.stamp_ns);
            assert_eq!(found.resolution_ns, 10);
        }
    }

    #[test]
    fn with_long_clock_steps_the_cost_is_the_mean_of_all_stamps() {
        let found = measured(u64::MAX, 40_000);
        assert!((found.stamp_ns - 10.0).abs() < 1.01, "{}", found.stamp_ns);
        assert_eq!(found.resolution_ns, 40_000);
        assert_eq!(measured(u64::MAX, u64::MAX).resolution_ns, 0);
    }
}
