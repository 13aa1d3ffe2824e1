//! The user's statements are executed like the driver's own operations.

use std::collections::BTreeMap;

use crate::support::recording::Recording;
use crate::support::{closed, plan, record};
use kvmark_plan::*;

fn argument(name: &str, generator: Generator) -> Argument {
    Argument { name: name.to_owned(), each: Each::Command, generator }
}

fn statement(name: &str, commands: u64, expects: &[u32]) -> Statement {
    let arguments =
        vec![argument("key", Generator::Key), argument("value", Generator::Field { field: 0 })];
    Statement {
        name: name.to_owned(),
        texts: vec![format!("{name} {{key}} {{value}}")],
        commands: SizeLaw::Constant { size: commands },
        items: SizeLaw::Constant { size: 1 },
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments,
        expects: expects.to_vec(),
        options: BTreeMap::new(),
    }
}

/// Loads 1000 records of one field, then reads and writes them, all by statements.
fn spoken_plan(commands: u64) -> Plan {
    let mut plan = plan(closed(), 4);
    plan.dataset.fields.count = 1;
    plan.dataset.values = ValueKind::Integrity;
    plan.dataset.probe = Some(0);
    plan.statements = vec![
        statement("LOOK", 1, &[1]),
        statement("PUT", 1, &[]),
        statement("GET", commands, &[1]),
        statement("SET", commands, &[]),
    ];
    let weight = |kind, index| Weight { kind, statement: Some(index), weight: 1.0 };
    let mut loader = plan.groups[0].clone();
    loader.name = "load".to_owned();
    loader.mix = vec![weight(Kind::Insert, 1)];
    plan.groups[0].mix = vec![weight(Kind::Read, 2), weight(Kind::Update, 3)];
    plan.groups[0].check_values = ValueCheck::Full;
    plan.groups.push(loader);
    plan.phases[0].groups[0].operations = Some(2_000);
    let mut load = plan.phases[0].clone();
    load.name = PhaseName::Load;
    load.only_if_missing = true;
    load.groups = vec![ActiveGroup { group: 1, operations: Some(1_000) }];
    plan.phases.insert(0, load);
    plan
}

fn count(record: &kvmark_record::RunRecord, operation: &str, outcome: Outcome) -> u64 {
    let totals = record.totals.iter();
    let wanted = totals.filter(|total| total.operation == operation && total.outcome == outcome);
    wanted.map(|total| total.count).sum()
}

#[test]
fn statements_load_read_write_and_are_recorded_under_their_names() {
    let store = Recording::default();
    let record = record(&spoken_plan(1), store.clone());
    assert_eq!(store.store.lock().unwrap().len(), 1_000);
    assert_eq!(count(&record, "PUT", Outcome::Ok), 1_000);
    let (reads, writes) = (count(&record, "GET", Outcome::Ok), count(&record, "SET", Outcome::Ok));
    assert_eq!(reads + writes, 2_000);
    assert!(reads > 800 && writes > 800, "{reads} reads and {writes} writes");
}

#[test]
fn an_operation_of_several_commands_is_one_operation_with_several_records() {
    let record = record(&spoken_plan(16), Recording::default());
    let gets = record.totals.iter().find(|total| total.operation == "GET").unwrap();
    assert_eq!(gets.rows, 16 * gets.count);
}

#[test]
fn a_load_is_left_out_when_the_probe_finds_the_records() {
    let store = Recording::default();
    record(&spoken_plan(1), store.clone());
    let again = record(&spoken_plan(1), store);
    assert_eq!(count(&again, "PUT", Outcome::Ok), 0);
}

#[test]
fn a_reply_without_the_expected_values_is_a_mismatch() {
    let store = Recording { corrupts: true, ..Recording::default() };
    let record = record(&spoken_plan(3), store);
    assert_eq!(count(&record, "GET", Outcome::Ok), 0);
    assert!(count(&record, "GET", Outcome::Mismatch) > 800);
}
