//! The memory of a run depends on its records, not on the number of named operations.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use kvmark_driver::Driver;
use kvmark_driver::null::Null;
use kvmark_plan::*;
use support::{closed, constant, plan, record, sim_for};

const NAMED: u32 = 100;
const MOST_BYTES: u64 = 150_000_000;
const MS: u64 = 1_000_000;

/// A plan whose mix has a hundred statements, half of which write.
fn named(arrival: Arrival, clients: u32, operations: u64, interval_ns: u64) -> Plan {
    let mut plan = plan(arrival, clients);
    plan.dataset.fields.count = 1;
    plan.statements = (0..NAMED).map(statement).collect();
    let kind = |index| if index % 2 == 0 { Kind::Read } else { Kind::Update };
    let weight = |index| Weight { kind: kind(index), statement: Some(index), weight: 1.0 };
    plan.groups[0].mix = (0..NAMED).map(weight).collect();
    plan.phases[0].groups[0].operations = Some(operations);
    plan.interval_ns = interval_ns;
    plan
}

fn statement(index: u32) -> Statement {
    let one = || SizeLaw::Constant { size: 1 };
    Statement {
        name: format!("COMMAND{index}"),
        texts: vec![format!("COMMAND{index} {{key}}")],
        commands: one(),
        items: one(),
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments: vec![Argument {
            name: "key".to_owned(),
            each: Each::Command,
            generator: Generator::Key,
        }],
        expects: Vec::new(),
        options: BTreeMap::new(),
    }
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The process's peak memory during a run, including memory that earlier runs left to the
/// allocator.
fn peak_of<D: Driver>(plan: &Plan, driver: D) -> u64 {
    // Resets the kernel's peak: proc(5), /proc/pid/clear_refs.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let record = record(plan, driver);
    let operations: Vec<_> = record.totals.iter().map(|total| total.operation.clone()).collect();
    assert!(operations.len() >= NAMED as usize, "{operations:?}");
    peak_bytes()
}

/// One test, because the peak is that of a process.
#[test]
fn a_hundred_named_operations_take_150_megabytes_at_most() {
    let null = || Null::open(&BTreeMap::new()).unwrap();
    let virtually = named(constant(2_000.0), 64, 40_000, 100 * MS);
    let sim = sim_for(&virtually, &[("clock", "virtual"), ("servers", "4"), ("mean_us", "1000")]);
    let (tenth, second, hour) = (100 * MS, 1_000 * MS, 3_600_000 * MS);
    let peaks = [
        ("on the virtual clock", peak_of(&virtually, sim)),
        ("16 threads", peak_of(&named(closed(), 16, 4_000_000, tenth), null())),
        ("64 threads, often", peak_of(&named(closed(), 64, 6_000_000, tenth), null())),
        ("64 threads", peak_of(&named(closed(), 64, 3_000_000, second), null())),
        ("64 threads, one interval", peak_of(&named(closed(), 64, 6_000_000, hour), null())),
    ];
    for (name, peak) in peaks {
        println!("{name}: {:.1} MB", peak as f64 * 1e-6);
    }
    for (name, peak) in peaks {
        assert!(peak <= MOST_BYTES, "{name}: {peak} bytes");
    }
}
