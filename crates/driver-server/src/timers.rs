//! The wall clock and time limits, for use outside of measurements.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kvmark_plan::Outcome;

use crate::failure::Failure;

/// The wall time in microseconds since the Unix epoch.
pub fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

/// The end of the time for work on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    limit: Duration,
    end: Instant,
}

impl Deadline {
    /// The end of a limit that begins now.
    pub fn after(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit }
    }

    /// The remaining time, which is above zero.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if none is left.
    pub fn rest(self) -> io::Result<Duration> {
        let rest = self.end.saturating_duration_since(Instant::now());
        if rest.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(rest) }
    }

    /// The result of work that ends now. Late failures are due to the limit.
    ///
    /// # Errors
    /// The work failed.
    pub fn judge<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.rest() {
            Err(_) if result.is_err() => {
                let text = format!("no connection within {} ms", self.limit.as_millis());
                Err(Failure::new(Outcome::Connection, text))
            }
            _ => result,
        }
    }
}
