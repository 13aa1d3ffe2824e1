//! Plans and runs for the engine's tests.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by it, and so may an example")]

pub mod forward;
pub mod recording;

use std::fs;

use kvmark_driver::sim::Sim;
use kvmark_driver::{Driver, Layout};
use kvmark_engine::{Completed, Unobserved, run};
use kvmark_plan::*;
use kvmark_record::{LostWriteRecord, RunRecord, TotalRecord};
pub use kvmark_testing::plans::{closed, constant, plan, poisson};

pub fn sim(options: &[(&str, &str)]) -> Sim {
    sim_for(&plan(closed(), 1), options)
}

/// A simulated system that knows the statements of a plan.
pub fn sim_for(plan: &Plan, options: &[(&str, &str)]) -> Sim {
    let text = |text: &str| serde_json::Value::String(text.to_owned());
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
    Sim::open(&options.collect(), &Layout::of(plan)).unwrap()
}

/// Runs a plan in a temporary folder.
pub fn completed<D: Driver>(plan: &Plan, driver: D) -> Completed {
    let folder = tempfile::tempdir().unwrap();
    run(plan, driver, folder.path(), None, &mut Unobserved).unwrap()
}

pub fn record<D: Driver>(plan: &Plan, driver: D) -> RunRecord {
    record_with_losses(plan, driver).0
}

/// The record of a run, and the lines of its file of lost writes.
pub fn record_with_losses<D: Driver>(plan: &Plan, driver: D) -> (RunRecord, Vec<LostWriteRecord>) {
    let folder = tempfile::tempdir().unwrap();
    let completed = run(plan, driver, folder.path(), None, &mut Unobserved).unwrap();
    assert!(completed.failure.is_none(), "{:?}", completed.failure);
    let lines = fs::read_to_string(folder.path().join("lost_writes.jsonl")).unwrap_or_default();
    let losses = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    (completed.record, losses.collect())
}

/// The totals of the first group's successful operations of one kind.
pub fn total(record: &RunRecord, kind: Kind) -> &TotalRecord {
    let mut totals = record.totals.iter();
    totals
        .find(|total| total.operation == kind.name() && total.outcome == Outcome::Ok && !total.part)
        .unwrap()
}

pub fn assert_close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= tolerance, "{what}: found {found}, expected {expected}, off by {off:.4}");
}
