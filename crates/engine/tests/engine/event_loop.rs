//! Many clients on one worker: work for one client doesn't count in another's time, and each
//! request has its own deadline.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::forward::{Forward, Hooks};
use crate::support::{closed, constant, plan, record, sim, total};
use kvmark_driver::null::Null;
use kvmark_plan::{Kind, Outcome};

const MS: u64 = 1_000_000;

/// Each request takes the worker as long as this to encode.
const ENCODING: Duration = Duration::from_micros(50);

#[derive(Default)]
struct Encodes;

impl Hooks for Encodes {
    fn request(&mut self) {
        let start = Instant::now();
        while start.elapsed() < ENCODING {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn a_service_time_holds_no_neighbours_work() {
    // The system answers all clients at once, after their requests were sent together.
    let mut plan = plan(closed(), 64);
    plan.phases[0].groups[0].operations = Some(64 * 50);
    let options = BTreeMap::from([("yields".to_owned(), 1.into())]);
    let driver = Forward::<_, Encodes>::new(Null::open(&options).expect("the option is known"));
    let record = record(&plan, driver);
    let reads = total(&record, Kind::Read);
    let encoding_ns = ENCODING.as_nanos() as u64;
    assert!(reads.service.quantiles.p50 < encoding_ns, "{:?}", reads.service.quantiles);
    // The time isn't lost: later requests wait for it.
    assert!(reads.response.quantiles.p50 > 10 * encoding_ns, "{:?}", reads.response.quantiles);
}

#[test]
fn in_a_stall_each_of_ten_thousand_clients_is_given_up_when_its_time_is_over() {
    let mut plan = plan(constant(60_000.0), 10_000);
    plan.timeout_ns = Some(200 * MS);
    plan.phases[0].duration_ns = Some(300 * MS);
    let options = [
        ("clock", "virtual"),
        ("service", "constant"),
        ("mean_us", "1000"),
        ("servers", "10000"),
        ("stall", "0.05+0.4"),
    ];
    let record = record(&plan, sim(&options));
    let mut totals = record.totals.iter();
    let total = totals.find(|total| total.outcome == Outcome::Timeout).expect("some are given up");
    let service = &total.service.quantiles;
    assert!(total.count >= 10_000, "{}", total.count);
    assert_eq!((service.min, service.max), (200 * MS + 1, 200 * MS + 1));
}

#[test]
fn a_lone_client_is_given_up_in_time_again_and_again() {
    let mut plan = plan(closed(), 1);
    plan.timeout_ns = Some(10 * MS);
    plan.phases[0].duration_ns = Some(1_500 * MS);
    let options = [
        ("clock", "virtual"),
        ("service", "constant"),
        ("mean_us", "100"),
        ("servers", "1000"),
        ("stall", "0.5+0.9"),
    ];
    let record = record(&plan, sim(&options));
    let mut totals = record.totals.iter();
    let total = totals.find(|total| total.outcome == Outcome::Timeout).expect("some are given up");
    let service = &total.service.quantiles;
    assert_eq!((service.min, service.max), (10 * MS + 1, 10 * MS + 1));
    assert!((89..=90).contains(&total.count), "{}", total.count);
}

#[test]
fn work_is_not_taken_for_polling() {
    let mut plan = plan(constant(10_000.0), 64);
    plan.phases[0].duration_ns = Some(1_000 * MS);
    let options = [("service", "constant"), ("mean_us", "1000"), ("servers", "1000")];
    let record = record(&plan, Forward::<_, Encodes>::new(sim(&options)));
    let phase = &record.phases[0];
    let (worker, group) = (&phase.workers[0], &phase.groups[0]);
    let encoded_ns = group.issued * ENCODING.as_nanos() as u64;
    assert!(encoded_ns + worker.idle_spin_ns <= worker.wall_ns, "{worker:?}");
}
