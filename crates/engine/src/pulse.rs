//! Whether a system answers: what a worker publishes of it, and what its coordinator makes of that.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is outstanding.
const NOT_WAITING: u64 = u64::MAX;

/// What a worker publishes while it works. It is the only writer, so that plain loads and stores
/// are enough.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Operations completed in the current phase.
    completed: AtomicU64,
    /// When the last answer came.
    answered_ns: AtomicU64,
    /// Since when it waits without an answer, times without a request left out.
    waits_ns: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            completed: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
            waits_ns: AtomicU64::new(NOT_WAITING),
        }
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// A phase begins, in which nothing is completed yet.
    pub(crate) fn restart_count(&self) {
        self.completed.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn complete(&self) {
        self.completed.store(self.completed() + 1, Ordering::Relaxed);
    }

    /// A call that blocks began.
    #[inline]
    pub(crate) fn wait_since(&self, at_ns: u64) {
        self.waits_ns.store(at_ns, Ordering::Relaxed);
    }

    /// It returned.
    #[inline]
    pub(crate) fn answer(&self, at_ns: u64) {
        self.answered_ns.store(at_ns, Ordering::Relaxed);
        self.waits_ns.store(NOT_WAITING, Ordering::Relaxed);
    }
}

/// Since when workers wait and none has an answer, by their pulses and whether they are still at
/// work. None while nothing is outstanding.
pub(crate) fn silent_since<'a>(pulses: impl Iterator<Item = (&'a Pulse, bool)>) -> Option<u64> {
    let (mut waits_ns, mut answered_ns) = (NOT_WAITING, 0);
    for (pulse, is_at_work) in pulses {
        if is_at_work {
            waits_ns = waits_ns.min(pulse.waits_ns.load(Ordering::Relaxed));
        }
        answered_ns = answered_ns.max(pulse.answered_ns.load(Ordering::Relaxed));
    }
    (waits_ns != NOT_WAITING).then_some(waits_ns.max(answered_ns))
}

/// A worker's own count of requests without an answer, published once a turn.
#[derive(Debug)]
pub(crate) struct Outstanding<'a> {
    pulse: &'a Pulse,
    requests: usize,
    /// When the oldest stretch of time with requests began that nothing ended but a request that
    /// was given up, times without a request left out.
    issued_ns: u64,
    answered_ns: u64,
    /// How long it had waited without an answer when its last request was given up.
    waited_ns: u64,
}

impl<'a> Outstanding<'a> {
    /// Nothing is outstanding yet.
    pub(crate) fn new(pulse: &'a Pulse) -> Self {
        pulse.wait_since(NOT_WAITING);
        Self { pulse, requests: 0, issued_ns: 0, answered_ns: 0, waited_ns: 0 }
    }

    /// A request was issued.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64) {
        if self.requests == 0 {
            self.issued_ns = at_ns.saturating_sub(self.waited_ns);
        }
        self.requests += 1;
    }

    /// A request was answered, whatever the answer.
    #[inline]
    pub(crate) fn answer(&mut self, at_ns: u64) {
        self.requests -= 1;
        self.hear(at_ns);
    }

    /// A server answered something, though it may be no answer to what is outstanding.
    #[inline]
    pub(crate) fn hear(&mut self, at_ns: u64) {
        self.waited_ns = 0;
        self.answered_ns = at_ns;
    }

    /// A request ended without an answer: it was given up, or its connection failed.
    pub(crate) fn give_up(&mut self, at_ns: u64) {
        if self.requests == 1 {
            let since_ns = self.issued_ns.max(self.answered_ns);
            self.waited_ns = at_ns.saturating_sub(since_ns);
        }
        self.requests -= 1;
    }

    /// Since when nothing was answered to what is outstanding; none while nothing is.
    pub(crate) fn silent_since(&self) -> Option<u64> {
        (self.requests > 0).then(|| self.issued_ns.max(self.answered_ns))
    }

    /// Lets the coordinator see it.
    #[inline]
    pub(crate) fn publish(&self) {
        self.pulse.answered_ns.store(self.answered_ns, Ordering::Relaxed);
        self.pulse.wait_since(self.silent_since().unwrap_or(NOT_WAITING));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(pulses: &[Pulse], workers: &[&Outstanding<'_>]) -> Option<u64> {
        workers.iter().for_each(|own| own.publish());
        silent_since(pulses.iter().map(|pulse| (pulse, true)))
    }

    #[test]
    fn who_asks_nothing_waits_for_nothing() {
        let pulses = [Pulse::new()];
        let mut own = Outstanding::new(&pulses[0]);
        assert_eq!(since(&pulses, &[&own]), None);
        own.add(10);
        assert_eq!(since(&pulses, &[&own]), Some(10));
        own.answer(30);
        assert_eq!(since(&pulses, &[&own]), None);
        own.add(1_000);
        assert_eq!(since(&pulses, &[&own]), Some(1_000));
    }

    #[test]
    fn one_answer_ends_the_silence_of_all_workers() {
        let pulses = [Pulse::new(), Pulse::new()];
        let [mut one, mut other] = [0, 1].map(|worker| Outstanding::new(&pulses[worker]));
        one.add(10);
        other.add(20);
        other.answer(50);
        assert_eq!(since(&pulses, &[&one, &other]), Some(50));
        one.add(60);
        one.answer(70);
        assert_eq!(since(&pulses, &[&one, &other]), Some(70));
    }

    #[test]
    fn a_request_that_is_given_up_is_no_answer_and_time_without_a_request_is_no_silence() {
        let pulses = [Pulse::new()];
        let mut own = Outstanding::new(&pulses[0]);
        own.add(0);
        own.give_up(100);
        assert_eq!(since(&pulses, &[&own]), None);
        own.add(1_000);
        assert_eq!(since(&pulses, &[&own]), Some(900));
        own.add(1_010);
        own.give_up(1_100);
        assert_eq!(since(&pulses, &[&own]), Some(900));
        own.hear(1_120);
        assert_eq!(since(&pulses, &[&own]), Some(1_120));
        own.answer(1_150);
        assert_eq!(since(&pulses, &[&own]), None);
        own.add(2_000);
        assert_eq!(since(&pulses, &[&own]), Some(2_000));
    }
}
