//! Small plans, changed where a test needs it.

use std::collections::BTreeMap;

use kvmark_plan::{
    ActiveGroup, Arrival, Dataset, Distribution, FORMAT, FieldChoice, FieldLayout, Group,
    KeyChoice, KeyOrder, KeyText, Kind, Phase, PhaseName, Plan, Seeds, Share, SizeLaw, System,
    ValueCheck, ValueKind, Weight,
};
use kvmark_workload::{InsertSequence, Stream};

pub(crate) const ALONE: Share = Share { index: 0, of: 1 };

/// A plan of one phase and one group that reads uniformly among 1000 records.
pub(crate) fn plan() -> Plan {
    Plan {
        format: FORMAT,
        name: "test".to_owned(),
        system: System { driver: "null".to_owned(), options: BTreeMap::new() },
        seeds: Seeds { schedule: 1, keys: 2, values: 3, mix: 4 },
        share: ALONE,
        dataset: Dataset {
            table: "usertable".to_owned(),
            start: 0,
            count: 1_000,
            full_at: None,
            key: KeyText { prefix: "user".to_owned(), zero_padding: 1, order: KeyOrder::Hashed },
            fields: FieldLayout {
                count: 10,
                name_prefix: "field".to_owned(),
                length: SizeLaw::Constant { size: 100 },
            },
            values: ValueKind::Random,
            probe: None,
        },
        prepare: Vec::new(),
        statements: Vec::new(),
        groups: vec![group()],
        phases: vec![phase()],
        interval_ns: 1_000_000_000,
        timeout_ns: None,
        drain_limit_ns: 1_000_000_000,
        verify_memory_bytes: None,
        stall_limit_ns: None,
        workers: 1,
        pin: Vec::new(),
    }
}

pub(crate) fn group() -> Group {
    Group {
        name: "clients".to_owned(),
        clients: 1,
        arrival: Arrival::Closed { think_time_ns: 0 },
        mix: mix(&[(Kind::Read, 1.0)]),
        keys: KeyChoice { start: 0, count: 1_000, distribution: Distribution::Uniform },
        read_fields: FieldChoice::All,
        write_fields: FieldChoice::All,
        scan_length: SizeLaw::Uniform { min: 1, max: 100 },
        check_values: ValueCheck::None,
        retry: None,
        on_miss: None,
    }
}

pub(crate) fn phase() -> Phase {
    Phase {
        name: PhaseName::Measure,
        groups: vec![ActiveGroup { group: 0, operations: Some(1_000) }],
        only_if_missing: false,
        duration_ns: None,
        until: None,
    }
}

pub(crate) fn mix(weights: &[(Kind, f64)]) -> Vec<Weight> {
    weights
        .iter()
        .map(|(kind, weight)| Weight { kind: *kind, statement: None, weight: *weight })
        .collect()
}

/// A plan that chooses among the first `count` ordinals by a law.
pub(crate) fn choosing(count: u64, distribution: Distribution) -> Plan {
    let mut plan = plan();
    plan.dataset.count = count;
    plan.groups[0].keys = KeyChoice { start: 0, count, distribution };
    plan
}

/// The first group's stream in the first phase.
pub(crate) fn stream(plan: &Plan) -> Stream {
    Stream::new(plan, 0, 0).unwrap()
}

/// A sequence that follows a loaded dataset.
pub(crate) fn inserts_after(plan: &Plan) -> InsertSequence {
    InsertSequence::new(plan.dataset.start + plan.dataset.count, plan.share)
}

/// The ordinals of the first `draws` numbers, with the whole dataset loaded.
pub(crate) fn ordinals(plan: &Plan, draws: u64) -> impl Iterator<Item = u64> + use<> {
    let (stream, inserts) = (stream(plan), inserts_after(plan));
    (0..draws).map(move |number| stream.draw(number, &inserts).ordinal)
}
