//! Whether a system answers: published by workers, evaluated by the coordinator.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is outstanding.
const NOT_WAITING: u64 = u64::MAX;

/// A worker's published state. The worker is the only writer, so plain loads and stores suffice.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Operations completed in the current phase.
    completed: AtomicU64,
    /// When the last answer arrived.
    answered_ns: AtomicU64,
    /// Start of the current wait for an answer, without times that had no request.
    waits_ns: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { waits_ns: AtomicU64::new(NOT_WAITING), ..Self::default() }
    }

    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// Resets the count at the start of a phase.
    pub(crate) fn restart_count(&self) {
        self.completed.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn complete(&self) {
        self.completed.store(self.completed() + 1, Ordering::Relaxed);
    }

    /// A blocking call began.
    #[inline]
    pub(crate) fn wait_since(&self, at_ns: u64) {
        self.waits_ns.store(at_ns, Ordering::Relaxed);
    }

    /// The call returned.
    #[inline]
    pub(crate) fn answer(&self, at_ns: u64) {
        self.answered_ns.store(at_ns, Ordering::Relaxed);
        self.waits_ns.store(NOT_WAITING, Ordering::Relaxed);
    }
}

/// Start of the time in which workers wait without any answer. Takes the pulses and whether each
/// worker is active. `None` without outstanding requests.
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

/// A worker's count of outstanding requests, published once per iteration.
#[derive(Debug)]
pub(crate) struct Outstanding<'a> {
    pulse: &'a Pulse,
    requests: usize,
    /// Start of the current wait, which only an answer ends, not a request that was given up.
    /// Excludes times without a request.
    issued_ns: u64,
    answered_ns: u64,
    /// Wait without an answer until the last request was given up.
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

    /// A request was answered, with any outcome.
    #[inline]
    pub(crate) fn answer(&mut self, at_ns: u64) {
        self.requests -= 1;
        self.hear(at_ns);
    }

    /// A server sent data, which may not belong to an outstanding request.
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

    /// Start of the silence; `None` without outstanding requests.
    pub(crate) fn silent_since(&self) -> Option<u64> {
        (self.requests > 0).then(|| self.issued_ns.max(self.answered_ns))
    }

    /// Publishes the state for the coordinator.
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
    fn a_worker_without_requests_is_not_waiting() {
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
    fn silence_continues_after_a_request_is_given_up_and_excludes_time_without_requests() {
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
