//! Timers of the runtime, for time limits and pauses outside of measurements.

pub use tokio::time::{sleep, timeout};
