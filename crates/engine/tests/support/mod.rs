//! Plans and runs for the engine's tests.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by it, and so may an example")]

pub mod recording;

use std::collections::BTreeMap;

use kvmark_driver::Driver;
use kvmark_driver::sim::Sim;
use kvmark_engine::{Completed, Unobserved, run};
use kvmark_plan::*;
use kvmark_record::{RunRecord, TotalRecord};

/// A plan with one group of clients that read 1000 records, to be changed by the test.
pub fn plan(arrival: Arrival, clients: u32) -> Plan {
    let key = KeyText { prefix: "user".to_owned(), zero_padding: 1, order: KeyOrder::Hashed };
    let length = SizeLaw::Constant { size: 100 };
    let fields = FieldLayout { count: 10, name_prefix: "field".to_owned(), length };
    Plan {
        format: FORMAT,
        name: "test".to_owned(),
        system: System { driver: "sim".to_owned(), options: BTreeMap::new() },
        seeds: Seeds { schedule: 1, keys: 2, values: 3, mix: 4 },
        share: Share { index: 0, of: 1 },
        dataset: Dataset {
            table: "usertable".to_owned(),
            start: 0,
            count: 1000,
            full_at: None,
            key,
            fields,
            values: ValueKind::Random,
            probe: None,
        },
        prepare: Vec::new(),
        statements: Vec::new(),
        groups: vec![Group {
            name: "clients".to_owned(),
            clients,
            arrival,
            mix: vec![Weight { kind: Kind::Read, statement: None, weight: 1.0 }],
            keys: KeyChoice { start: 0, count: 1000, distribution: Distribution::Uniform },
            read_fields: FieldChoice::All,
            write_fields: FieldChoice::One,
            scan_length: SizeLaw::Uniform { min: 1, max: 100 },
            check_values: false,
        }],
        phases: vec![Phase {
            name: PhaseName::Measure,
            groups: vec![ActiveGroup { group: 0, operations: None }],
            only_if_missing: false,
            duration_ns: None,
            until: None,
        }],
        interval_ns: 1_000_000_000,
        timeout_ns: None,
        drain_limit_ns: 10_000_000_000,
        workers: 1,
        pin: Vec::new(),
    }
}

pub fn closed() -> Arrival {
    Arrival::Closed { think_time_ns: 0 }
}

pub fn constant(rate: f64) -> Arrival {
    Arrival::Constant { rates: vec![RatePoint { at_ns: 0, rate }] }
}

pub fn poisson(rate: f64) -> Arrival {
    Arrival::Poisson { rates: vec![RatePoint { at_ns: 0, rate }] }
}

pub fn sim(options: &[(&str, &str)]) -> Sim {
    let text = |text: &str| serde_json::Value::String(text.to_owned());
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
    Sim::open(&options.collect()).unwrap()
}

/// Runs a plan in a folder that is gone afterwards.
pub fn completed<D: Driver>(plan: &Plan, driver: D) -> Completed {
    let folder = tempfile::tempdir().unwrap();
    run(plan, driver, folder.path(), &mut Unobserved).unwrap()
}

pub fn record<D: Driver>(plan: &Plan, driver: D) -> RunRecord {
    let completed = completed(plan, driver);
    assert!(completed.failure.is_none(), "{:?}", completed.failure);
    completed.record
}

/// The totals of the first group's operations of one kind that ended as asked.
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
