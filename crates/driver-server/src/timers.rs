//! A runtime's timers: for limits on connecting, and for pauses of what isn't measured.

pub use tokio::time::{sleep, timeout};
