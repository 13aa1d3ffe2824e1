//! Carries out one plan on the null driver, for profilers: the engine's own cost and nothing else.
//!
//! Arguments: yields (0 for a blocking driver), clients, workers, operations, `uniform` or
//! `zipfian`.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(clippy::unwrap_used, reason = "a wrong argument may end it")]

use std::collections::BTreeMap;

use kvmark_driver::null::Null;
use kvmark_engine::{Unobserved, run};
use kvmark_plan::Distribution;

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u64| words.next().map_or(default, |word| word.parse().unwrap());
    let (yields, clients) = (number(0), number(1) as u32);
    let (workers, operations) = (number(1) as u32, number(20_000_000));
    let mut plan = support::plan(support::closed(), clients);
    plan.workers = workers;
    // What an interval costs isn't an operation's.
    plan.interval_ns = 3_600_000_000_000;
    plan.phases[0].groups[0].operations = Some(operations);
    if std::env::args().nth(5).is_some_and(|word| word == "zipfian") {
        plan.groups[0].keys.distribution = Distribution::YcsbZipfian;
    }
    let options = BTreeMap::from([("yields".to_owned(), yields.into())]);
    let driver = Null::open(&options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let record = run(&plan, driver, folder.path(), &mut Unobserved).unwrap().record;
    let phase = &record.phases[0];
    let ns = (phase.end_ns - phase.start_ns) as f64 / operations as f64;
    println!("{ns:.1} ns per operation, {:.2} M/s", 1e3 / ns);
}
