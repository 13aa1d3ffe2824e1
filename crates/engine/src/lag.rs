//! Time between the arrival of bytes in the kernel and the stamp of their read.
//!
//! The kernel reports arrivals in wall time, and the engine has its own clock. The offset between
//! the two is measured repeatedly, because wall time is adjusted.

use kvmark_record::LONGEST_NS;

use crate::clock::{Clock, wall_ns};

/// How long an offset is valid. Wall time is adjusted by at most five in ten thousand, which is 5
/// us in this time, and far less without a correction.
const ANCHOR_KEPT_NS: u64 = 10_000_000;
/// Number of measurements, of which the shortest counts: a thread may be preempted in one.
const TRIES: u32 = 5;
/// How far a stamp may precede the arrival: the error of an offset.
const SLACK_NS: u64 = 5_000;

/// Offset of wall time from a worker's clock.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    ahead_ns: u64,
    /// On the worker's clock.
    kept_until_ns: u64,
}

impl Anchor {
    /// Time from an arrival in wall time to the stamp of its read; `None` if wall time was
    /// apparently set in between.
    pub(crate) fn lag_ns(
        &mut self,
        clock: &impl Clock,
        kernel_wall_ns: u64,
        read_ns: u64,
    ) -> Option<u64> {
        if read_ns >= self.kept_until_ns {
            self.ahead_ns = ahead_ns(clock);
            self.kept_until_ns = read_ns + ANCHOR_KEPT_NS;
        }
        lag_ns(kernel_wall_ns, read_ns + self.ahead_ns)
    }
}

fn lag_ns(arrived_ns: u64, stamped_ns: u64) -> Option<u64> {
    if arrived_ns > stamped_ns + SLACK_NS {
        return None;
    }
    let lag_ns = stamped_ns.saturating_sub(arrived_ns);
    (lag_ns <= LONGEST_NS).then_some(lag_ns)
}

fn ahead_ns(clock: &impl Clock) -> u64 {
    let measured = (0..TRIES).map(|_| {
        let before_ns = clock.now_ns();
        let wall_ns = wall_ns();
        let took_ns = clock.now_ns() - before_ns;
        (took_ns, wall_ns.saturating_sub(before_ns + took_ns / 2))
    });
    measured.min().map_or(0, |(_, ahead_ns)| ahead_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn a_read_before_its_arrival_or_an_hour_after_it_is_excluded() {
        let read_ns = 10 * LONGEST_NS;
        assert_eq!(lag_ns(read_ns - 7, read_ns), Some(7));
        assert_eq!(lag_ns(read_ns + SLACK_NS, read_ns), Some(0));
        assert_eq!(lag_ns(read_ns + SLACK_NS + 1, read_ns), None);
        assert_eq!(lag_ns(read_ns - LONGEST_NS, read_ns), Some(LONGEST_NS));
        assert_eq!(lag_ns(read_ns - LONGEST_NS - 1, read_ns), None);
    }

    #[test]
    fn an_expired_offset_is_measured_again() {
        const SECOND_NS: u64 = 1_000_000_000;
        let clock = RealClock::start();
        let mut anchor = Anchor::default();
        let arrived_ns = wall_ns();
        let read_ns = clock.now_ns();
        let lag_at = |anchor: &mut Anchor, read_ns| {
            anchor.lag_ns(&clock, arrived_ns, read_ns).expect("it arrived before it was read")
        };
        let lag_ns = lag_at(&mut anchor, read_ns);
        // As if wall time had been set back by a second in between.
        anchor.ahead_ns += SECOND_NS;
        assert_eq!(lag_at(&mut anchor, read_ns), lag_ns + SECOND_NS);
        assert!(lag_at(&mut anchor, read_ns + ANCHOR_KEPT_NS) < lag_ns + SECOND_NS);
    }
}
