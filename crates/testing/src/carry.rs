//! Carries requests out and looks at nothing but whether that worked.

use kvmark_driver::{Completions, Reply, Request, Session, Ticket};
use kvmark_plan::Outcome;

/// Longer than any answer takes.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Counts what has ended, and allocates nothing.
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

/// Submits these requests at once, each of a client of its own, and takes turns until all are
/// carried out. Allocates nothing itself.
///
/// # Panics
/// When one isn't `ok`.
pub fn carry_out<S: Session>(session: &mut S, requests: &[Request<'_>]) {
    let mut count = Count::default();
    for (ticket, request) in requests.iter().enumerate() {
        session.submit(ticket as Ticket, request);
    }
    while count.ended < requests.len() {
        session.turn(PATIENCE_NS, &mut count);
    }
}
