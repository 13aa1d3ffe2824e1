//! Acknowledged writes are read back at the end, and lost ones are counted.

use std::sync::Arc;

use crate::support::recording::Recording;
use crate::support::{closed, plan, record, record_with_losses};
use kvmark_plan::*;
use kvmark_record::{Expectation, Loss, RunRecord, VerifyRecord};

const WRITES: u64 = 5_000;

/// Loads 1000 records, writes one field or all of them, and reads the writes back.
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
    plan.verify_memory_bytes = Some(1 << 30);
    plan
}

fn verified(plan: &Plan, store: Recording) -> RunRecord {
    record(plan, store)
}

fn read_back(record: &RunRecord, outcome: Outcome) -> u64 {
    let mut totals = record.totals.iter().filter(|total| total.phase == 2);
    totals.find(|total| total.outcome == outcome).map_or(0, |total| total.count)
}

fn sweep(record: &RunRecord) -> VerifyRecord {
    record.phases[2].sweep.clone().expect("the third phase verifies")
}

/// The counts of a thousand intact records.
fn intact() -> VerifyRecord {
    VerifyRecord { records: 1_000, written: 1_000, ..VerifyRecord::default() }
}

/// The key of a record as the store has it.
fn store_key(plan: &Plan, ordinal: u64) -> Vec<u8> {
    let stream = kvmark_workload::Stream::new(plan, 1, 0).expect("the plan is right");
    let mut key = Vec::new();
    stream.records().key_into(ordinal, &mut key);
    key
}

#[test]
fn a_store_that_keeps_its_word_has_lost_nothing() {
    for fields in [FieldChoice::All, FieldChoice::One] {
        let record = verified(&verified_plan(fields), Recording::default());
        assert_eq!(sweep(&record), intact());
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
fn each_lost_write_is_listed_with_its_times_and_the_first_ten_are_recorded() {
    for fields in [FieldChoice::All, FieldChoice::One] {
        let mut plan = verified_plan(fields);
        plan.dataset.key.prefix = "é\n\"user".to_owned();
        let store = Recording { forgets_from: Some(WRITES - 100), ..Recording::default() };
        let asked = Arc::clone(&store.asked);
        let (record, lost) = record_with_losses(&plan, store);
        assert_eq!(lost.len() as u64, read_back(&record, Outcome::Mismatch));
        let summary = sweep(&record).lost_writes.expect("writes are lost");
        assert_eq!(summary.first, lost[..10]);
        let times: Vec<_> = lost.iter().map(|write| write.acknowledged_at_ns).collect();
        assert!(times.is_sorted() && times[0] == summary.acknowledged_from_ns);
        assert_eq!(times.last(), Some(&summary.acknowledged_until_ns));
        let measure = &record.phases[1];
        let asked = asked.lock().unwrap();
        for write in &lost {
            assert_eq!((write.phase, &write.group[..]), (PhaseName::Measure, "clients"));
            assert_eq!((write.expected, write.found), (Expectation::Value, Loss::Older));
            assert!((measure.start_ns..write.acknowledged_at_ns).contains(&write.written_at_ns));
            assert!(write.acknowledged_at_ns <= measure.drained_ns + 16);
            let mut updates = asked.iter().filter(|(_, kind, ..)| *kind == Kind::Update);
            assert!(updates.any(|(number, _, key, _)| {
                *number >= WRITES - 100 && key[..] == *write.key.as_bytes()
            }));
        }
    }
    let (_, lost) = record_with_losses(&verified_plan(FieldChoice::All), Recording::default());
    assert_eq!(lost, []);
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
fn a_field_that_is_gone_is_found_though_the_others_are_right() {
    for fields in [FieldChoice::All, FieldChoice::One] {
        let store = Recording { loses_field: Some((WRITES - 1, 3)), ..Recording::default() };
        let mut plan = verified_plan(fields);
        // Another client's later update might write the field again.
        plan.groups[0].clients = 1;
        let record = verified(&plan, store);
        let lost_writes = sweep(&record).lost_writes;
        assert_eq!(lost_writes.as_ref().expect("one is lost").first[0].field, Some(3));
        assert_eq!(sweep(&record), VerifyRecord { incomplete: 1, lost_writes, ..intact() });
        assert_eq!(read_back(&record, Outcome::Mismatch), 1);
        assert_eq!(read_back(&record, Outcome::Ok), 999);
    }
}

#[test]
fn an_update_behind_a_read_that_missed_is_remembered() {
    for forgets_from in [None, Some(60)] {
        let mut plan = verified_plan(FieldChoice::All);
        let kind = Kind::ReadModifyWrite;
        plan.groups[0].mix = vec![Weight { kind, statement: None, weight: 1.0 }];
        plan.groups[0].keys.distribution = Distribution::Sequential;
        plan.phases[0].groups[0].operations = Some(0);
        plan.phases[1].groups[0].operations = Some(100);
        let record = verified(&plan, Recording { forgets_from, ..Recording::default() });
        assert_eq!(sweep(&record).records, 100);
        let lost = forgets_from.map_or(0, |from| 100 - from);
        assert_eq!(read_back(&record, Outcome::Miss), lost);
        assert_eq!(read_back(&record, Outcome::Ok), 100 - lost);
    }
}

#[test]
fn a_fill_is_remembered_with_all_its_fields() {
    let mut plan = verified_plan(FieldChoice::One);
    plan.groups[0].mix = vec![Weight { kind: Kind::Read, statement: None, weight: 1.0 }];
    plan.groups[0].on_miss = Some(Fill { statement: None });
    plan.groups[0].keys.distribution = Distribution::Sequential;
    plan.phases[0].groups[0].operations = Some(0);
    plan.phases[1].groups[0].operations = Some(100);
    let store = Recording::default();
    let record = verified(&plan, store.clone());
    assert_eq!((sweep(&record).records, read_back(&record, Outcome::Ok)), (100, 100));
    let records = store.store.lock().unwrap();
    assert!(records.len() == 100 && records.values().all(|fields| fields.len() == 10));
}

#[test]
fn a_read_modify_write_that_ends_with_its_read_has_written_nothing() {
    let mut plan = verified_plan(FieldChoice::All);
    let kind = Kind::ReadModifyWrite;
    plan.groups[0].mix = vec![Weight { kind, statement: None, weight: 1.0 }];
    plan.groups[0].check_values = ValueCheck::Full;
    plan.dataset.values = ValueKind::Integrity;
    plan.phases[0].groups[0].operations = Some(0);
    plan.phases[1].groups[0].operations = Some(100);
    let store = Recording { corrupts: true, ..Recording::default() };
    let present = (0..1_000).map(|ordinal| store_key(&plan, ordinal));
    let record = [(0, b"something".to_vec())];
    store.store.lock().unwrap().extend(present.map(|key| (key, record.clone().into())));
    let record = verified(&plan, store);
    assert_eq!(sweep(&record).records, 0);
}

/// Sets one field of a record in each of four commands.
fn pipelined_plan() -> Plan {
    let mut plan = verified_plan(FieldChoice::All);
    plan.dataset.fields.count = 1;
    let argument = |name: &str, generator| {
        let (name, each) = (name.to_owned(), Each::Command);
        Argument { name, each, generator }
    };
    let one = SizeLaw::Constant { size: 1 };
    plan.statements = vec![Statement {
        name: "SET".to_owned(),
        texts: vec!["SET {key} {value} XX".to_owned()],
        commands: SizeLaw::Constant { size: 4 },
        items: one,
        record: Each::Command,
        rows: None,
        arguments: vec![
            argument("key", Generator::Key),
            argument("value", Generator::Field { field: 0 }),
        ],
        expects: Vec::new(),
        checks: Vec::new(),
        when_full: None,
        options: std::collections::BTreeMap::new(),
    }];
    plan.groups[0].mix = vec![Weight { kind: Kind::Update, statement: Some(0), weight: 1.0 }];
    plan.phases[0].groups[0].operations = Some(0);
    plan.phases[1].groups[0].operations = Some(500);
    plan
}

#[test]
fn of_an_operation_that_missed_or_was_refused_the_commands_that_were_applied_are_remembered() {
    for outcome in [Outcome::Miss, Outcome::Refused] {
        let refuses = Some((2, outcome));
        let store = Recording { refuses, ..Recording::default() };
        let record = verified(&pipelined_plan(), store);
        let written = sweep(&record).records;
        assert!(written > 700, "of 1,500 writes to 1,000 records {written} were remembered");
        assert_eq!(read_back(&record, Outcome::Ok), written);
        // Three of four are acknowledged; one of these is a lie.
        let store = Recording { refuses, forgets_command: Some(3), ..Recording::default() };
        let record = verified(&pipelined_plan(), store);
        let lost = read_back(&record, Outcome::Miss) + read_back(&record, Outcome::Mismatch);
        assert!(lost > 200, "of 500 writes that were forgotten {lost} were found");
        assert_eq!(read_back(&record, Outcome::Ok), sweep(&record).records - lost);
    }
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

#[test]
fn with_little_memory_a_sample_is_verified_and_its_share_is_recorded() {
    let mut plan = verified_plan(FieldChoice::All);
    plan.dataset.count = 100_000;
    plan.groups[0].keys.count = 100_000;
    plan.phases[0].groups[0].operations = Some(100_000);
    plan.verify_memory_bytes = Some(2 << 20);
    let store = Recording { forgets_from: Some(0), ..Recording::default() };
    let record = verified(&plan, store);
    let sweep = sweep(&record);
    // At most 2 MiB, and at least what a table has that could be twice as large.
    assert!((10_000..43_000).contains(&sweep.records), "{sweep:?}");
    assert!(sweep.written.abs_diff(100_000) < 5_000, "{sweep:?}");
    // Records outside the sample are dropped, and never count as lost.
    let stale = read_back(&record, Outcome::Mismatch);
    assert_eq!(read_back(&record, Outcome::Ok), sweep.records - stale);
    let expected = 100_000.0 * (1.0 - (-(WRITES as f64) / 100_000.0).exp());
    let share = sweep.records as f64 / sweep.written as f64;
    assert!((stale as f64 - expected * share).abs() < 0.2 * expected * share, "{stale} stale");
}
