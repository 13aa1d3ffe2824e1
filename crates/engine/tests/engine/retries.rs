//! Failed requests are tried again, and overload outlasts its trigger where attempts exceed the
//! capacity.

use crate::support::recording::Recording;
use crate::support::{assert_close, closed, constant, plan, record, sim};
use kvmark_plan::*;
use kvmark_record::{RunRecord, TotalRecord};

const MS: u64 = 1_000_000;
const VIRTUAL: (&str, &str) = ("clock", "virtual");

fn policy(attempts: u32, backoff_ns: u64, jitter: Jitter) -> Option<RetryPolicy> {
    Some(RetryPolicy { attempts, jitter, backoff_ns, backoff_limit_ns: 10 * backoff_ns })
}

fn named<'a>(record: &'a RunRecord, name: &str, outcome: Outcome) -> Option<&'a TotalRecord> {
    record.totals.iter().find(|one| one.operation == name && one.outcome == outcome)
}

fn count(record: &RunRecord, name: &str, outcome: Outcome) -> u64 {
    named(record, name, outcome).map_or(0, |total| total.count)
}

/// Ten operations a second for a minute, with three attempts and 100 ms between the first ones.
fn calm() -> Plan {
    let mut plan = plan(constant(10.0), 100);
    plan.groups[0].retry = policy(3, 100 * MS, Jitter::None);
    plan.phases[0].duration_ns = Some(60_000 * MS);
    plan
}

#[test]
fn an_operation_lasts_from_its_due_instant_to_the_end_of_its_last_attempt() {
    let constant = ("service", "constant");
    let record = record(&calm(), sim(&[VIRTUAL, constant, ("mean_us", "10"), ("outage", "0+99")]));
    let given_up = named(&record, "READ", Outcome::Unavailable).unwrap();
    // The pauses of those due in the last 300 ms would have ended after the phase.
    assert_eq!(given_up.count, 600);
    assert_eq!(given_up.response.quantiles.max, 300 * MS);
    assert_close("p50", given_up.response.quantiles.p50 as f64, 3e8, 0.001);
    assert_eq!((given_up.wait.quantiles.max, given_up.part), (0, false));
    let attempts = named(&record, "ATTEMPT", Outcome::Unavailable).unwrap();
    let cut = 600 * 3 - attempts.count;
    assert!((1..=5).contains(&cut), "{cut}");
    assert_eq!((attempts.service.quantiles.max, attempts.part), (0, true));
    let group = &record.phases[0].groups[0];
    assert_eq!((group.issued, group.completed, group.ok, group.abandoned), (600, 600, 0, 0));
}

#[test]
fn another_attempt_succeeds_after_an_outage_or_a_timeout() {
    // The attempts of operations due in the 100 ms fail, those after them are answered.
    for (trigger, failure) in [("outage", Outcome::Unavailable), ("stall", Outcome::Timeout)] {
        let mut plan = calm();
        plan.timeout_ns = Some(40 * MS);
        let options = [VIRTUAL, ("mean_us", "10"), ("service", "constant"), (trigger, "9.95+0.1")];
        let record = record(&plan, sim(&options));
        assert_eq!(count(&record, "READ", Outcome::Ok), 600, "{trigger}");
        assert_eq!(count(&record, "ATTEMPT", Outcome::Ok), 600, "{trigger}");
        assert_eq!(count(&record, "ATTEMPT", failure), 1, "{trigger}");
    }
}

#[test]
fn no_attempt_follows_a_wrong_value_or_without_a_policy() {
    let mut plan = calm();
    plan.groups[0].retry = None;
    let record = record(&plan, sim(&[VIRTUAL, ("outage", "0+99")]));
    assert_eq!(count(&record, "READ", Outcome::Unavailable), 600);
    assert_eq!(count(&record, "ATTEMPT", Outcome::Unavailable), 0);
}

/// Successful operations of a minute at a rate, on a server that completes 1,000 requests a second
/// and stands still for two seconds after the tenth.
fn goodput_after_a_stall(rate: f64, retry: Option<RetryPolicy>) -> f64 {
    let mut plan = plan(constant(rate), 4_000);
    plan.groups[0].retry = retry;
    plan.timeout_ns = Some(100 * MS);
    plan.phases[0].duration_ns = Some(60_000 * MS);
    let options = [VIRTUAL, ("service", "constant"), ("mean_us", "1000"), ("stall", "10+2")];
    let record = record(&plan, sim(&options));
    count(&record, "READ", Outcome::Ok) as f64 / (60.0 * rate)
}

#[test]
fn overload_outlasts_a_stall_if_all_attempts_together_exceed_the_capacity() {
    // In the stall the queue grows beyond the timeout, so that each attempt is in vain. It shrinks
    // again only if three attempts of each operation are less than the server completes.
    for (rate, least, most) in [(300.0, 0.6, 0.97), (400.0, 0.1, 0.2)] {
        let ok = goodput_after_a_stall(rate, policy(3, 0, Jitter::None));
        assert!((least..=most).contains(&ok), "{rate}: {ok}");
    }
    let ok = goodput_after_a_stall(400.0, None);
    assert!((0.9..=0.97).contains(&ok), "without retries: {ok}");
}

/// A plan that writes, and reads the writes back.
fn verified(clients: u32, retry: Option<RetryPolicy>) -> Plan {
    let mut plan = plan(closed(), clients);
    let weight = |kind| Weight { kind, statement: None, weight: 1.0 };
    let mut reader = plan.groups[0].clone();
    reader.name = "verify".to_owned();
    plan.groups[0].mix = [Kind::Update, Kind::ReadModifyWrite, Kind::Insert].map(weight).to_vec();
    plan.groups[0].retry = retry;
    plan.groups.push(reader);
    plan.verify_memory_bytes = Some(1 << 30);
    plan.phases[0].groups[0].operations = Some(4_000);
    let groups = vec![ActiveGroup { group: 1, operations: None }];
    plan.phases.push(Phase { name: PhaseName::Verify, groups, ..plan.phases[0].clone() });
    plan
}

#[test]
fn writes_that_may_have_happened_twice_stay_verified() {
    let mut plan = verified(16, policy(4, 20 * MS, Jitter::Full));
    plan.timeout_ns = Some(5 * MS);
    let faults = ("disconnect", "0.03+0.005,0.1+0.03");
    let store = ("store", "memory");
    let options = [VIRTUAL, store, ("mean_us", "200"), ("stall", "0.06+0.02"), faults];
    let record = record(&plan, sim(&options));
    for failure in [Outcome::Connection, Outcome::Timeout] {
        assert!(count(&record, "ATTEMPT", failure) > 0, "{failure:?}");
    }
    let sweep = record.phases[1].sweep.as_ref().unwrap();
    assert!(sweep.records > 1_000 && sweep.lost_writes.is_none(), "{sweep:?}");
}

#[test]
fn clients_with_threads_make_further_attempts_with_the_same_value() {
    let mut plan = verified(2, policy(3, 1_000, Jitter::Full));
    plan.phases.truncate(1);
    plan.groups[0].mix.truncate(1);
    plan.phases[0].groups[0].operations = Some(50);
    let store = Recording { breaks_from: Some(0), ..Recording::default() };
    let record = record(&plan, store.clone());
    assert_eq!(count(&record, "UPDATE", Outcome::Connection), 50);
    assert_eq!(count(&record, "ATTEMPT", Outcome::Connection), 150);
    let asked = store.multiset();
    assert_eq!(asked.len(), 150);
    assert!(asked.chunks(3).all(|same| same[0] == same[1] && same[1] == same[2]));
}
