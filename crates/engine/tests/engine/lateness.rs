//! Attribution of lateness: to the worker, or to the system whose answers clients wait for.

use std::time::{Duration, Instant};

use crate::support::forward::{Forward, Hooks};
use crate::support::{constant, plan, record, sim};
use kvmark_driver::Driver;
use kvmark_plan::Plan;
use kvmark_record::GroupRecord;

/// A thousand operations a second by sixteen clients.
fn steady(duration_ns: u64) -> Plan {
    let mut plan = plan(constant(1_000.0), 16);
    plan.phases[0].duration_ns = Some(duration_ns);
    plan
}

fn group<D: Driver>(plan: &Plan, driver: D) -> GroupRecord {
    record(plan, driver).phases[0].groups[0].clone()
}

#[test]
fn a_stall_of_the_system_makes_operations_late_because_their_clients_are_busy() {
    let options =
        [("clock", "virtual"), ("service", "constant"), ("mean_us", "100"), ("stall", "5.3+0.2")];
    let group = group(&steady(10_000_000_000), sim(&options));
    assert!(group.late > 150, "{}", group.late);
    assert_eq!(group.late_busy, group.late);
}

/// The worker's thread freezes once.
struct Freezes {
    start: Instant,
    froze: bool,
}

impl Default for Freezes {
    fn default() -> Self {
        Self { start: Instant::now(), froze: false }
    }
}

impl Hooks for Freezes {
    fn poll(&mut self) {
        if !self.froze && self.start.elapsed() > Duration::from_millis(300) {
            self.froze = true;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_stall_of_the_worker_makes_operations_late_while_their_clients_are_free() {
    // Five of the sixteen clients are busy when the worker freezes, and not for as long.
    let options = [("service", "constant"), ("mean_us", "5000"), ("servers", "100")];
    let group = group(&steady(1_000_000_000), Forward::<_, Freezes>::new(sim(&options)));
    assert!(group.late > 100, "{}", group.late);
    assert!(10 * group.late_busy <= group.late, "{} of {}", group.late_busy, group.late);
}

#[test]
fn a_stall_of_the_worker_is_its_own_though_its_only_client_was_busy() {
    // The client waits for answers nearly all of the time.
    let options = [("service", "constant"), ("mean_us", "8000"), ("servers", "100")];
    let mut plan = steady(1_000_000_000);
    plan.groups[0].clients = 1;
    plan.groups[0].arrival = constant(100.0);
    let group = group(&plan, Forward::<_, Freezes>::new(sim(&options)));
    assert!(group.late >= 20, "{}", group.late);
    assert!(4 * group.late_busy <= group.late, "{} of {}", group.late_busy, group.late);
}

#[test]
fn arrivals_due_before_the_end_are_issued_after_a_delay_of_the_worker() {
    let mut plan = steady(400_000_000);
    plan.groups[0].clients = 400;
    let options = [("service", "constant"), ("mean_us", "100"), ("servers", "400")];
    let group = group(&plan, Forward::<_, Freezes>::new(sim(&options)));
    assert_eq!(group.dropped, 0);
    assert!(group.late > 50, "{}", group.late);
    assert_eq!(group.late_busy, 0);
}
