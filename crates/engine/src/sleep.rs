//! How long a worker may sleep so that it is awake when an operation is due.

/// Longest sleep of a worker, because the early end of a phase wakes no worker.
pub(crate) const LOOK_UP_NS: u64 = 50_000_000;

/// Bounds of the lead before an instant.
const LEAST_LEAD_NS: u64 = 3_000;
const MOST_LEAD_NS: u64 = 200_000;
/// An arrival that is due in less time is polled for: a sleep would take longer.
const SHORTEST_SLEEP_NS: u64 = 25_000;
/// The lead before the first measurement.
const FIRST_LEAD_NS: u64 = 60_000;

/// Sleeps until shortly before the next instant and polls for the rest of the wait. The lead is
/// measured: it covers the kernel's wake-up time in almost all cases.
#[derive(Debug)]
pub(crate) struct Sleep {
    lead_ns: u64,
    /// End of the current sleep, if it targets an instant.
    wakes_ns: Option<u64>,
    polls: bool,
    /// Longest time that should be polled after a sleep.
    poll_ns: u64,
}

/// What a worker waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// An operation is due: needs microsecond precision.
    pub(crate) due_ns: u64,
    /// Other work is due, such as the end of an interval: may be a little late.
    pub(crate) chore_ns: u64,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { lead_ns: FIRST_LEAD_NS, wakes_ns: None, polls: false, poll_ns: u64::MAX }
    }

    /// Limits the time that is polled after a sleep. If wake-up times vary more, operations are
    /// late by a part of the difference.
    pub(crate) fn limit_polling(&mut self, poll_ns: u64) {
        self.poll_ns = poll_ns;
    }

    /// Whether a wait is too short for a sleep.
    pub(crate) fn is_short(&self, wait_ns: u64) -> bool {
        wait_ns < self.lead_ns.min(SHORTEST_SLEEP_NS)
    }

    /// Longest wait of the next turn.
    pub(crate) fn patience_ns(&mut self, now_ns: u64, until: Until) -> u64 {
        self.wakes_ns = None;
        let wakes_ns = until.due_ns.saturating_sub(self.lead_ns);
        self.polls = wakes_ns <= now_ns;
        if self.polls {
            return 0;
        }
        let chore_ns = until.chore_ns.min(now_ns + LOOK_UP_NS);
        if wakes_ns <= chore_ns {
            self.wakes_ns = Some(wakes_ns);
        }
        wakes_ns.min(chore_ns).saturating_sub(now_ns)
    }

    /// Whether the last turn polled because an operation is nearly due.
    pub(crate) fn polled(&self) -> bool {
        self.polls
    }

    /// Takes the instant at which the turn ended.
    pub(crate) fn woke(&mut self, now_ns: u64) {
        // Woken by an answer, or without a target instant: no measurement.
        let Some(wakes_ns) = self.wakes_ns.take().filter(|wakes_ns| now_ns >= *wakes_ns) else {
            return;
        };
        let late_ns = now_ns - wakes_ns;
        // Rises by half of the excess and falls by a 64th, so that about one in thirty sleeps
        // exceeds it. With a limit of polling, rises by that at most and falls by half beyond it.
        self.lead_ns = if late_ns > self.lead_ns {
            self.lead_ns + ((late_ns - self.lead_ns) / 2).min(self.poll_ns)
        } else {
            let polled_ns = self.lead_ns - late_ns;
            self.lead_ns - polled_ns / if polled_ns > self.poll_ns { 2 } else { 64 }
        };
        self.lead_ns = self.lead_ns.clamp(LEAST_LEAD_NS, MOST_LEAD_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: u64 = u64::MAX;

    #[test]
    fn an_operation_due_soon_is_polled_for_and_a_chore_is_not() {
        let mut sleep = Sleep::new();
        let soon_ns = FIRST_LEAD_NS / 2;
        assert_eq!(sleep.patience_ns(0, Until { due_ns: soon_ns, chore_ns: NOTHING }), 0);
        assert!(sleep.polled());
        assert_eq!(sleep.patience_ns(0, Until { due_ns: NOTHING, chore_ns: soon_ns }), soon_ns);
        assert!(!sleep.polled());
        let until = Until { due_ns: NOTHING, chore_ns: NOTHING };
        assert_eq!(sleep.patience_ns(7, until), LOOK_UP_NS);
    }

    /// Mean time that is polled after a sleep, and the longest delay, if wake-ups take from 20 to
    /// 80 us.
    fn polled(poll_ns: u64) -> (u64, u64) {
        let (mut sleep, mut now_ns, mut polled_ns, mut late_ns) = (Sleep::new(), 0, 0, 0);
        sleep.limit_polling(poll_ns);
        for number in 0..10_000 {
            let due_ns = now_ns + 1_000_000;
            let until = Until { due_ns, chore_ns: NOTHING };
            now_ns += sleep.patience_ns(now_ns, until) + 20_000 + number * 7_919 % 60_000;
            sleep.woke(now_ns);
            polled_ns += due_ns.saturating_sub(now_ns);
            late_ns = late_ns.max(now_ns.saturating_sub(due_ns));
            now_ns = now_ns.max(due_ns);
        }
        (polled_ns / 10_000, late_ns)
    }

    #[test]
    fn a_limit_of_polling_is_kept_and_costs_less_delay_than_wake_ups_vary() {
        let (unlimited_ns, _) = polled(NOTHING);
        let (limited_ns, late_ns) = polled(5_000);
        assert!(unlimited_ns > 20_000, "{unlimited_ns}");
        assert!(limited_ns < 10_000 && late_ns < 60_000, "{limited_ns} {late_ns}");
    }

    #[test]
    fn the_lead_converges_to_the_wake_up_time() {
        for (wakes_late_ns, expected) in [(1_000, 3_000..3_001), (40_000, 35_000..45_000)] {
            let mut sleep = Sleep::new();
            let mut now_ns = 0;
            for _ in 0..2_000 {
                let until = Until { due_ns: now_ns + 1_000_000, chore_ns: NOTHING };
                now_ns += sleep.patience_ns(now_ns, until) + wakes_late_ns;
                sleep.woke(now_ns);
            }
            assert!(expected.contains(&sleep.lead_ns), "{}", sleep.lead_ns);
        }
    }
}
