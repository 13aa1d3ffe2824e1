//! How long the bytes of a read had been in this machine when they were stamped.
//!
//! The kernel tells of arrivals in wall time, the engine stamps on its own clock. What is between
//! the two is measured again and again, because wall time is steered.

use kvmark_record::LONGEST_NS;

use crate::clock::{Clock, wall_ns};

/// How long the two clocks are taken to go alike. Wall time is steered by five in ten thousand at
/// most, which makes 5 us of it, and far less where it isn't being corrected.
const ANCHOR_KEPT_NS: u64 = 10_000_000;
/// Of so many measurements the closest is taken: a thread may lose its core in one.
const TRIES: u32 = 5;
/// By so much a stamp may seem to lie before the arrival: what an anchor can be off by.
const SLACK_NS: u64 = 5_000;

/// What wall time is ahead of a worker's clock.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    ahead_ns: u64,
    /// On the worker's clock.
    kept_until_ns: u64,
}

impl Anchor {
    /// From an arrival in wall time to the stamp of its read; none where wall time was set between
    /// them, as it seems.
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
    fn what_seems_to_be_read_before_it_came_or_an_hour_after_is_left_out() {
        let read_ns = 10 * LONGEST_NS;
        assert_eq!(lag_ns(read_ns - 7, read_ns), Some(7));
        assert_eq!(lag_ns(read_ns + SLACK_NS, read_ns), Some(0));
        assert_eq!(lag_ns(read_ns + SLACK_NS + 1, read_ns), None);
        assert_eq!(lag_ns(read_ns - LONGEST_NS, read_ns), Some(LONGEST_NS));
        assert_eq!(lag_ns(read_ns - LONGEST_NS - 1, read_ns), None);
    }

    #[test]
    fn the_clocks_are_compared_anew_when_the_comparison_is_old() {
        const SECOND_NS: u64 = 1_000_000_000;
        let clock = RealClock::start();
        let mut anchor = Anchor::default();
        let arrived_ns = wall_ns();
        let read_ns = clock.now_ns();
        let lag_at = |anchor: &mut Anchor, read_ns| {
            anchor.lag_ns(&clock, arrived_ns, read_ns).expect("it came before it was read")
        };
        let lag_ns = lag_at(&mut anchor, read_ns);
        // As if wall time had been set back by a second since.
        anchor.ahead_ns += SECOND_NS;
        assert_eq!(lag_at(&mut anchor, read_ns), lag_ns + SECOND_NS);
        assert!(lag_at(&mut anchor, read_ns + ANCHOR_KEPT_NS) < lag_ns + SECOND_NS);
    }
}
