//! What was acknowledged is read back at the end, and what is lost is counted.

mod support;

use kvmark_plan::*;
use kvmark_record::{RunRecord, SweepRecord};
use support::recording::Recording;
use support::{closed, plan, record};

const WRITES: u64 = 5_000;

/// Loads 1000 records, writes one field or all of them, and reads back what was written.
fn verified_plan(fields: FieldChoice) -> Plan {
    let mut plan = plan(closed(), 4);
    let weight = |kind| vec![Weight { kind, statement: None, weight: 1.0 }];
    let mut loader = plan.groups[0].clone();
    loader.name = "load".to_owned();
    loader.mix = weight(Kind::Insert);
    let mut reader = plan.groups[0].clone();
    reader.name = "verify".to_owned();
    plan.groups[0].mix = weight(Kind::Update);
    plan.groups[0].write_fields = fields;
    plan.groups.extend([loader, reader]);
    plan.phases[0].groups[0].operations = Some(WRITES);
    let stage = |name, group, operations| {
        let mut phase = plan.phases[0].clone();
        phase.name = name;
        phase.groups = vec![ActiveGroup { group, operations }];
        phase
    };
    let load = stage(PhaseName::Load, 1, Some(1_000));
    let verify = stage(PhaseName::Verify, 2, None);
    plan.phases.insert(0, load);
    plan.phases.push(verify);
    plan
}

fn verified(plan: &Plan, store: Recording) -> RunRecord {
    record(plan, store)
}

fn read_back(record: &RunRecord, outcome: Outcome) -> u64 {
    let mut totals = record.totals.iter().filter(|total| total.phase == 2);
    totals.find(|total| total.outcome == outcome).map_or(0, |total| total.count)
}

fn sweep(record: &RunRecord) -> SweepRecord {
    record.phases[2].sweep.expect("the third phase verifies")
}

#[test]
fn a_store_that_keeps_its_word_has_lost_nothing() {
    for fields in [FieldChoice::All, FieldChoice::One] {
        let record = verified(&verified_plan(fields), Recording::default());
        assert_eq!(sweep(&record), SweepRecord { records: 1_000, unacknowledged: 0 });
        assert_eq!(read_back(&record, Outcome::Ok), 1_000);
    }
}

#[test]
fn a_write_that_was_acknowledged_and_forgotten_is_found() {
    for fields in [FieldChoice::All, FieldChoice::One] {
        let store = Recording { forgets_from: Some(WRITES - 100), ..Recording::default() };
        let record = verified(&verified_plan(fields), store);
        let lost = read_back(&record, Outcome::Mismatch);
        assert!((50..=100).contains(&lost), "{lost} records have lost a write");
        assert_eq!(read_back(&record, Outcome::Ok), 1_000 - lost);
    }
}

#[test]
fn a_record_that_is_gone_is_found() {
    let mut plan = verified_plan(FieldChoice::All);
    plan.phases[0].groups[0].operations = Some(0);
    plan.phases[1].groups[0].operations = Some(1);
    let store = Recording { forgets_from: Some(0), ..Recording::default() };
    let record = verified(&plan, store);
    assert_eq!(read_back(&record, Outcome::Miss), 1);
}

#[test]
fn a_write_that_may_or_may_not_be_there_is_counted_apart() {
    let store = Recording { breaks_from: Some(WRITES - 100), ..Recording::default() };
    let record = verified(&verified_plan(FieldChoice::All), store);
    let sweep = sweep(&record);
    assert!((50..=100).contains(&sweep.unacknowledged), "{sweep:?}");
    assert_eq!(read_back(&record, Outcome::Ok), 1_000);
}

#[test]
fn a_record_that_was_removed_need_not_be_there() {
    let mut plan = verified_plan(FieldChoice::All);
    plan.groups[0].mix = vec![Weight { kind: Kind::Delete, statement: None, weight: 1.0 }];
    plan.groups[0].keys.distribution = Distribution::Sequential;
    plan.phases[1].groups[0].operations = Some(400);
    let record = verified(&plan, Recording::default());
    assert_eq!(read_back(&record, Outcome::Ok), 1_000);
}
