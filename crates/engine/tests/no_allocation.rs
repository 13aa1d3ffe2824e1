//! The engine allocates nothing per operation, with blocking and other drivers.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::null::Null;
use kvmark_plan::{Arrival, Kind, Weight};
use kvmark_testing::CountingAllocator;
use support::forward::{Forward, Hooks};
use support::{closed, constant, plan, record};

const OPERATIONS: u64 = 200_000;
/// By then each client has its buffers and each series its tallies.
const WARM: u64 = 10_000;
/// New durations make a tally grow, each of three kinds of two series: its list doubles, its window
/// grows by a quarter of a power of two or more. So a tally grows less than once per power of two
/// up to an hour. Operations cause no other allocation.
const GROWTH: u64 = 3 * 2 * 42;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The worker's allocations when it issued operation number `WARM`, and when it issued its last.
static WARM_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALL_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Reads the counter of the worker's thread.
#[derive(Default)]
struct Watches {
    executed: u64,
}

impl Hooks for Watches {
    fn request(&mut self) {
        self.executed += 1;
        let seen = if self.executed == WARM { &WARM_ALLOCATIONS } else { &ALL_ALLOCATIONS };
        seen.store(kvmark_testing::allocations(), Ordering::Relaxed);
    }
}

fn watched(yields: u32) -> Forward<Null, Watches> {
    let options = BTreeMap::from([("yields".to_owned(), yields.into())]);
    Forward::new(Null::open(&options).expect("the option is known"))
}

/// Allocations of the one worker between its warm operation and its last.
fn allocations(arrival: Arrival, clients: u32, yields: u32) -> u64 {
    let mut plan = plan(arrival, clients);
    plan.groups[0].mix = [Kind::Read, Kind::Update]
        .map(|kind| Weight { kind, statement: None, weight: 1.0 })
        .to_vec();
    plan.phases[0].groups[0].operations = Some(OPERATIONS);
    // An interval report is sent once per interval and needs memory.
    plan.interval_ns = 3_600_000_000_000;
    let record = record(&plan, watched(yields));
    assert_eq!(record.phases[0].groups[0].completed, OPERATIONS);
    let (warm, all) = (&WARM_ALLOCATIONS, &ALL_ALLOCATIONS);
    assert!(warm.load(Ordering::Relaxed) > 0, "the counter counts");
    all.load(Ordering::Relaxed) - warm.load(Ordering::Relaxed)
}

/// Allocations of the one worker in each of fifty intervals.
fn allocations_an_interval() -> u64 {
    let mut plan = plan(constant(10_000.0), 64);
    plan.phases[0].groups[0].operations = Some(10_000);
    plan.interval_ns = 20_000_000;
    record(&plan, watched(1));
    ALL_ALLOCATIONS.load(Ordering::Relaxed) / 50
}

/// One test, because both cases use the same counter.
#[test]
fn an_operation_allocates_nothing_on_a_thread_of_its_own_or_as_one_of_many_tasks() {
    for (name, arrival, clients, yields) in [
        ("blocking", closed(), 1, 0),
        ("asynchronous", closed(), 64, 1),
        ("asynchronous, open model", constant(1_000_000.0), 64, 1),
    ] {
        let found = allocations(arrival, clients, yields);
        println!("{name}: {found} allocations in {OPERATIONS} operations");
        assert!(found <= GROWTH, "{name}: {found} allocations");
    }
    // The counts of a report, and sometimes a growing histogram; new reports would cost three times
    // as much.
    let found = allocations_an_interval();
    println!("{found} allocations an interval");
    assert!(found <= 8, "{found} allocations an interval");
}
