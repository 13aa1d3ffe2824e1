//! Each client has its share of the arrivals, and each arrival has one client.

use crate::support::{constant, plan, record, sim};
use kvmark_plan::*;
use kvmark_record::RunRecord;

const QUICK: [(&str, &str); 3] = [("clock", "real"), ("mean_us", "0"), ("servers", "100")];

/// A plan with one group for each pair of clients and arrivals.
fn groups(pairs: &[(u32, u64)], workers: u32, share: Share) -> Plan {
    let mut plan = plan(constant(1e9), 1);
    let template = plan.groups[0].clone();
    let named = |(index, (clients, _)): (usize, &(u32, u64))| Group {
        name: format!("group-{index}"),
        clients: *clients,
        ..template.clone()
    };
    plan.groups = pairs.iter().enumerate().map(named).collect();
    let active = |(group, (_, arrivals)): (usize, &(u32, u64))| ActiveGroup {
        group: group as u32,
        operations: Some(*arrivals),
    };
    plan.phases[0].groups = pairs.iter().enumerate().map(active).collect();
    (plan.workers, plan.share) = (workers, share);
    plan
}

fn issued(record: &RunRecord) -> Vec<u64> {
    record.phases[0].groups.iter().map(|group| group.issued).collect()
}

#[test]
fn a_writer_beside_readers_has_its_arrivals_issued_with_two_workers() {
    let mut plan = groups(&[(8, 2_000), (1, 200)], 2, Share { index: 0, of: 1 });
    for (group, rate) in [(0, 10_000.0), (1, 1_000.0)] {
        plan.groups[group].arrival = constant(rate);
    }
    let record = record(&plan, sim(&QUICK));
    assert_eq!(record.phases[0].workers.len(), 2);
    assert_eq!(issued(&record), [2_000, 200]);
}

#[test]
fn the_machines_of_a_fleet_issue_every_arrival_once_between_them() {
    for of in 1..4 {
        let share = |index| groups(&[(5, 100), (4, 33)], 3, Share { index, of });
        let parts = (0..of).map(|index| issued(&record(&share(index), sim(&QUICK))));
        let sums = parts.fold([0, 0], |sums, part| [sums[0] + part[0], sums[1] + part[1]]);
        assert_eq!(sums, [100, 33], "{of} machines");
    }
}
