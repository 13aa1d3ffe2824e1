//! Streams of operations don't depend on the worker.

use crate::support::recording::Recording;
use crate::support::{closed, completed, plan};
use kvmark_plan::*;

fn mixed_plan(clients: u32, share: Share) -> Plan {
    let mut plan = plan(closed(), clients);
    plan.share = share;
    plan.groups[0].mix = [
        (Kind::Read, 0.4),
        (Kind::Update, 0.3),
        (Kind::Scan, 0.1),
        (Kind::ReadModifyWrite, 0.1),
        (Kind::Delete, 0.1),
    ]
    .map(|(kind, weight)| Weight { kind, statement: None, weight })
    .to_vec();
    plan.groups[0].keys.distribution = Distribution::Zipfian { theta: 0.8, scrambled: true };
    plan.phases[0].groups[0].operations = Some(5_000);
    plan
}

const WHOLE: Share = Share { index: 0, of: 1 };

#[test]
fn one_client_and_eight_execute_the_same_multiset_of_operations() {
    let (one, eight) = (Recording::default(), Recording::default());
    assert!(completed(&mixed_plan(1, WHOLE), one.clone()).failure.is_none());
    assert!(completed(&mixed_plan(8, WHOLE), eight.clone()).failure.is_none());
    assert!(one.multiset().len() >= 5_000);
    assert_eq!(one.multiset(), eight.multiset());
}

#[test]
fn three_shares_together_execute_the_multiset_of_the_whole() {
    let (whole, shared) = (Recording::default(), Recording::default());
    completed(&mixed_plan(2, WHOLE), whole.clone());
    for index in 0..3 {
        completed(&mixed_plan(3, Share { index, of: 3 }), shared.clone());
    }
    assert_eq!(whole.multiset(), shared.multiset());
}

#[test]
fn loading_inserts_every_ordinal_once_however_many_clients_do_it() {
    let load = |clients| {
        let mut plan = plan(closed(), clients);
        plan.groups[0].mix = vec![Weight { kind: Kind::Insert, statement: None, weight: 1.0 }];
        plan.phases[0].name = PhaseName::Load;
        plan.phases[0].groups[0].operations = Some(1_000);
        let store = Recording::default();
        completed(&plan, store.clone());
        let keys: Vec<_> = store.store.lock().unwrap().keys().cloned().collect();
        keys
    };
    let one = load(1);
    assert_eq!(one.len(), 1_000);
    assert_eq!(one, load(8));
}

#[test]
fn readers_ask_only_for_keys_that_were_acknowledged() {
    let mut plan = plan(closed(), 8);
    plan.dataset.count = 10;
    plan.groups[0].keys = KeyChoice { start: 0, count: 10, distribution: Distribution::Latest };
    plan.groups[0].mix = vec![
        Weight { kind: Kind::Insert, statement: None, weight: 1.0 },
        Weight { kind: Kind::Read, statement: None, weight: 1.0 },
    ];
    let mut loader = plan.groups[0].clone();
    loader.mix = vec![Weight { kind: Kind::Insert, statement: None, weight: 1.0 }];
    plan.groups.push(loader);
    let mut load = plan.phases[0].clone();
    load.name = PhaseName::Load;
    load.groups = vec![ActiveGroup { group: 1, operations: Some(10) }];
    plan.phases[0].groups[0].operations = Some(20_000);
    plan.phases.insert(0, load);
    let done = completed(&plan, Recording::default());
    assert!(done.failure.is_none());
    assert!(done.record.totals.iter().all(|total| total.outcome == Outcome::Ok));
    let frontier = done.record.phases[1].groups[0].frontier;
    assert!((9_000..11_500).contains(&frontier), "{frontier}");
}
