//! What the instrument itself costs.

use crate::clock::{Clock, RealClock};

/// Stamps taken to find their cost; well below a millisecond in all.
const STAMPS: u32 = 10_000;

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

pub(crate) fn measure<C: Clock>(clock: &C) -> Calibration {
    let start_ns = clock.now_ns();
    let mut last_ns = start_ns;
    let mut resolution_ns = u64::MAX;
    for _ in 0..STAMPS {
        let now_ns = clock.now_ns();
        let step_ns = now_ns - last_ns;
        if step_ns > 0 {
            resolution_ns = resolution_ns.min(step_ns);
        }
        last_ns = now_ns;
    }
    let stamp_ns = (last_ns - start_ns) as f64 / f64::from(STAMPS);
    Calibration {
        stamp_ns,
        resolution_ns: if resolution_ns == u64::MAX { 0 } else { resolution_ns },
    }
}
