//! Verification finds every planted fault of a simulated store, and no others.

use std::collections::BTreeMap;

use crate::support::{closed, plan, poisson, record_with_losses, sim_for};
use kvmark_plan::*;
use kvmark_record::{Change, Expectation, Loss, LostWriteRecord, RunRecord, VerifyRecord};

const SEEDS: std::ops::Range<u64> = 0..8;
const RECORDS: u64 = 500;
/// The option of each fault, with the number of faults.
const FAULTS: [(&str, u64); 7] = [
    ("lose_record", 3),
    ("lose_field", 4),
    ("return_older", 5),
    ("swap_records", 2),
    ("tear_value", 6),
    ("resurrect_record", 1),
    ("apply_failed", 7),
];

/// The findings of reading back, as numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    missing: u64,
    incomplete: u64,
    torn: u64,
    stale: u64,
    resurrected: u64,
    unacknowledged: u64,
}

impl Found {
    /// The expected findings for these numbers of faults.
    fn of(faults: &[(&str, u64)]) -> Self {
        let mut found = Self::default();
        for (fault, count) in faults {
            match *fault {
                "lose_record" => found.missing += count,
                "apply_failed" => found.unacknowledged += count,
                "tear_value" => found.torn += count,
                "lose_field" => found.incomplete += count,
                "resurrect_record" => found.resurrected += count,
                "swap_records" => found.stale += 2 * count,
                _ => found.stale += count,
            }
        }
        found
    }

    fn by(record: &RunRecord) -> Self {
        let phase = record
            .phases
            .iter()
            .find(|phase| phase.name == PhaseName::Verify)
            .expect("the run verifies");
        let count = |outcome| -> u64 {
            let totals = record.totals.iter().filter(|total| total.phase == phase.index);
            totals.filter(|total| total.outcome == outcome).map(|total| total.count).sum()
        };
        let sweep = phase.sweep.as_ref().expect("it read back");
        let (missing, mismatched) = (count(Outcome::Miss), count(Outcome::Mismatch));
        assert_eq!(count(Outcome::Ok) + missing + mismatched, sweep.records);
        let VerifyRecord { incomplete, torn, resurrected, unacknowledged, .. } = *sweep;
        let stale = mismatched - incomplete - torn - resurrected;
        Self { missing, incomplete, torn, stale, resurrected, unacknowledged }
    }
}

/// The faults in the store when reading back began, by option.
fn planted(record: &RunRecord) -> BTreeMap<String, u64> {
    let phase = record
        .phases
        .iter()
        .find(|phase| phase.name == PhaseName::Verify)
        .expect("the run verifies");
    let counter = |(name, change): (&String, &Change)| {
        (name.trim_start_matches("planted.").to_owned(), change.before as u64)
    };
    phase.statistics.iter().map(counter).collect()
}

fn weight(kind: Kind, statement: Option<u32>, weight: f64) -> Weight {
    Weight { kind, statement, weight }
}

/// Loads records, executes 4,000 operations of this mix, and reads the writes back.
fn verified(mix: Vec<Weight>, seed: u64) -> Plan {
    let mut plan = plan(closed(), 16);
    plan.seeds = Seeds { schedule: seed, keys: seed + 1, values: seed + 2, mix: seed + 3 };
    plan.dataset.count = RECORDS;
    plan.groups[0].keys.count = RECORDS;
    plan.groups[0].mix = mix;
    plan.verify_memory_bytes = Some(1 << 30);
    let mut loader = plan.groups[0].clone();
    loader.name = "load".to_owned();
    loader.arrival = closed();
    loader.mix = vec![weight(Kind::Insert, None, 1.0)];
    let mut reader = loader.clone();
    reader.name = "verify".to_owned();
    reader.mix = vec![weight(Kind::Read, None, 1.0)];
    plan.groups.extend([loader, reader]);
    plan.phases[0].groups[0].operations = Some(4_000);
    let phase = |name, group, operations| {
        let groups = vec![ActiveGroup { group, operations }];
        Phase { name, groups, ..plan.phases[0].clone() }
    };
    let load = phase(PhaseName::Load, 1, Some(RECORDS));
    let verify = phase(PhaseName::Verify, 2, None);
    plan.phases.insert(0, load);
    plan.phases.push(verify);
    plan
}

fn updates() -> Vec<Weight> {
    vec![
        weight(Kind::Read, None, 0.2),
        weight(Kind::Update, None, 0.5),
        weight(Kind::ReadModifyWrite, None, 0.25),
        weight(Kind::Delete, None, 0.05),
    ]
}

const VIRTUAL: (&str, &str) = ("clock", "virtual");

/// Plants faults in a store with these options and returns the findings of reading back.
fn found(plan: &Plan, seed: u64, options: &[(&str, &str)], faults: &[(&str, u64)]) -> Found {
    let seed = seed.to_string();
    let counts: Vec<_> = faults.iter().map(|(name, count)| (*name, count.to_string())).collect();
    let mut all = vec![("store", "memory"), ("seed", &seed), ("faults_after", "700")];
    all.extend(counts.iter().map(|(name, count)| (*name, &count[..])));
    all.extend(options);
    let (record, lost) = record_with_losses(plan, sim_for(plan, &all));
    let wanted = faults.iter().map(|(name, count)| ((*name).to_owned(), *count));
    assert_eq!(planted(&record), wanted.collect(), "{all:?}");
    assert_eq!(counted(&lost), losses_of(faults), "{all:?}");
    Found::by(&record)
}

/// The number of lost writes by loss.
fn counted(lost: &[LostWriteRecord]) -> BTreeMap<Loss, u64> {
    let mut counts = BTreeMap::new();
    for write in lost {
        let removed = write.found == Loss::Resurrected;
        assert_eq!(write.expected == Expectation::Removal, removed, "{write:?}");
        *counts.entry(write.found).or_default() += 1;
    }
    counts
}

/// The same, as it is expected for these numbers of faults.
fn losses_of(faults: &[(&str, u64)]) -> BTreeMap<Loss, u64> {
    let loss = |(fault, count): &(&str, u64)| match *fault {
        "lose_record" => Some((Loss::Missing, *count)),
        "lose_field" => Some((Loss::Incomplete, *count)),
        "return_older" => Some((Loss::Older, *count)),
        "swap_records" => Some((Loss::Other, 2 * count)),
        "tear_value" => Some((Loss::Torn, *count)),
        "resurrect_record" => Some((Loss::Resurrected, *count)),
        _ => None,
    };
    faults.iter().filter_map(loss).collect()
}

/// Plants faults and compares the findings with them.
fn finds(plan: &Plan, seed: u64, options: &[(&str, &str)], faults: &[(&str, u64)]) {
    let found = found(plan, seed, options, faults);
    assert_eq!(found, Found::of(faults), "seed {seed}, {options:?}, {faults:?}");
}

#[test]
fn an_honest_store_has_lost_nothing() {
    for seed in SEEDS {
        finds(&verified(updates(), seed), seed, &[VIRTUAL], &[]);
    }
}

#[test]
fn each_fault_alone_is_found_as_often_as_it_was_planted() {
    for seed in SEEDS {
        for fault in FAULTS {
            finds(&verified(updates(), seed), seed, &[VIRTUAL], &[fault]);
        }
    }
}

#[test]
fn all_faults_at_once_are_found() {
    for seed in SEEDS {
        for fields in [FieldChoice::All, FieldChoice::One] {
            let mut plan = verified(updates(), seed);
            plan.groups[0].write_fields = fields;
            finds(&plan, seed, &[VIRTUAL], &FAULTS);
        }
    }
}

#[test]
fn faults_are_found_after_arrivals_of_an_open_model() {
    for seed in SEEDS {
        let mut plan = verified(updates(), seed);
        plan.groups[0].arrival = poisson(8_000.0);
        finds(&plan, seed, &[VIRTUAL], &FAULTS);
    }
}

#[test]
fn faults_are_found_that_several_workers_meet() {
    let mut plan = verified(updates(), 1);
    plan.workers = 4;
    for (seed, mean_us) in (0..4).zip(["100", "200", "400", "0"]) {
        // Without a service time the run ends before a value gets old.
        let faults = if mean_us == "0" { &[][..] } else { &FAULTS };
        finds(&plan, seed, &[("servers", "8"), ("mean_us", mean_us)], faults);
    }
}

/// The faults that reading back finds independent of writes with an unknown outcome.
const CERTAIN: &[(&str, u64)] = FAULTS.split_at(6).0;

#[test]
fn writes_with_unknown_outcomes_hide_no_fault_and_cause_none() {
    let disturbances: [&[(&str, &str)]; 4] = [
        &[("outage", "0.06+0.01,0.3+0.01")],
        &[("stall", "0.06+0.1,0.3+0.1")],
        &[("disconnect", "0.06+0.01,0.2+0.01")],
        &[("outage", "0.1+0.01"), ("stall", "0.15+0.1"), ("disconnect", "0.06+0.01,0.26+0.01")],
    ];
    for (seed, disturbance) in SEEDS.zip(disturbances.iter().cycle()) {
        let mut plan = verified(updates(), seed);
        // Clients with immediate answers would otherwise send requests forever.
        plan.groups[0].arrival = poisson(8_000.0);
        plan.timeout_ns = Some(20_000_000);
        for faults in [&[], CERTAIN] {
            let found = found(&plan, seed, &[&[VIRTUAL], *disturbance].concat(), faults);
            let expected = Found { unacknowledged: found.unacknowledged, ..Found::of(faults) };
            assert_eq!(found, expected, "seed {seed}, {disturbance:?}, {faults:?}");
        }
    }
}

#[test]
fn a_write_that_was_under_way_when_its_phase_was_given_up_may_take_effect_later() {
    let mut plan = verified(vec![weight(Kind::Update, None, 1.0)], 1);
    plan.phases[1].groups[0].operations = None;
    plan.phases[1].duration_ns = Some(500_000_000);
    plan.drain_limit_ns = 50_000_000;
    // Requests in flight at its start are served before those that read back.
    let found = found(&plan, 1, &[("mean_us", "10"), ("stall", "0.5+1")], &[]);
    assert_eq!(found, Found { unacknowledged: found.unacknowledged, ..Found::default() });
}

/// A statement with one record per command, whose arguments are its key and its fields.
fn statement(name: &str, commands: u64, fields: u32, reads: bool) -> Statement {
    let argument = |name: String, generator| Argument { name, each: Each::Command, generator };
    let field = |field| argument(format!("f{field}"), Generator::Field { field });
    let key = argument("key".to_owned(), Generator::Key);
    Statement {
        name: name.to_owned(),
        texts: vec![format!("{name} {{key}} {{f0}} {{f1}} {{f2}}")],
        commands: SizeLaw::Constant { size: commands },
        items: SizeLaw::Constant { size: 1 },
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments: std::iter::once(key).chain((0..fields).map(field)).collect(),
        expects: if reads { (1..=fields).collect() } else { Vec::new() },
        options: BTreeMap::new(),
    }
}

/// The same with statements: one to load, pipelines that write one field or all, or remove.
fn piped(seed: u64) -> Plan {
    let mix = vec![
        weight(Kind::Update, Some(2), 0.4),
        weight(Kind::Update, Some(3), 0.3),
        weight(Kind::Read, Some(1), 0.2),
        weight(Kind::Delete, Some(4), 0.1),
    ];
    let mut plan = verified(mix, seed);
    plan.dataset.fields.count = 3;
    plan.dataset.probe = Some(1);
    plan.statements = vec![
        statement("PUT", 1, 3, false),
        statement("GET", 1, 3, true),
        statement("SET", 8, 1, false),
        statement("SET_ALL", 1, 3, false),
        statement("REMOVE", 2, 0, false),
    ];
    plan.groups[1].mix = vec![weight(Kind::Insert, Some(0), 1.0)];
    plan.groups[2].mix = vec![weight(Kind::Read, Some(1), 1.0)];
    plan.phases[1].groups[0].operations = Some(1_500);
    plan
}

#[test]
fn faults_are_found_among_the_commands_of_pipelines() {
    for seed in SEEDS {
        finds(&piped(seed), seed, &[VIRTUAL], &[]);
        finds(&piped(seed), seed, &[VIRTUAL], &FAULTS);
    }
}
