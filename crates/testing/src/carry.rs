//! Executes requests and checks only that they succeed.

use kvmark_driver::{Completions, Reply, Request, Session, Ticket};
use kvmark_plan::Outcome;

/// Longer than any reply takes.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Counts completed requests without an allocation.
#[derive(Default)]
struct Count {
    ended: usize,
    stamp_ns: u64,
}

impl Completions for Count {
    fn stamp(&mut self) -> u64 {
        self.stamp_ns += 1;
        self.stamp_ns
    }

    fn issued(&mut self, _: Ticket, _: u64) {}

    fn completed(&mut self, _: Ticket, _: u64, outcome: Outcome, _: &Reply) {
        assert_eq!(outcome, Outcome::Ok);
        self.ended += 1;
    }

    fn failed(&mut self, _: Ticket, _: u64, _: Outcome, why: &str, _: &Reply) {
        panic!("{why}");
    }
}

/// Submits these requests together, each for another client, and polls until all are complete.
/// Allocates nothing itself.
///
/// # Panics
/// If one fails.
pub fn carry_out<S: Session>(session: &mut S, requests: &[Request<'_>]) {
    let mut count = Count::default();
    for (ticket, request) in requests.iter().enumerate() {
        session.submit(ticket as Ticket, request);
    }
    while count.ended < requests.len() {
        session.poll(PATIENCE_NS, &mut count);
    }
}
