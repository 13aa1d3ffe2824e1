//! Timers of the runtime and the wall clock, for use outside of measurements.

use std::time::{SystemTime, UNIX_EPOCH};

pub use tokio::time::{sleep, timeout};

/// The wall time in microseconds since the Unix epoch.
pub fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}
