//! Who is late: the worker, or the system whose answers its clients wait for.

mod support;

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use kvmark_driver::sim::{Sim, SimSession};
use kvmark_driver::{Capabilities, Description, Driver, OpenError, Time};
use kvmark_plan::Plan;
use kvmark_record::GroupRecord;
use support::{constant, plan, record, sim};

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

/// A simulated system whose worker's thread freezes once.
struct Freezing(Sim);

impl Driver for Freezing {
    type Session = SimSession;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn describe(&self) -> Description {
        self.0.describe()
    }

    async fn session(
        &self,
        clients: Range<u32>,
        time: Rc<dyn Time>,
    ) -> Result<SimSession, OpenError> {
        tokio::task::spawn_local(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::thread::sleep(Duration::from_millis(200));
        });
        self.0.session(clients, time).await
    }
}

#[test]
fn a_stall_of_the_worker_makes_operations_late_while_their_clients_are_free() {
    // Five of the sixteen clients are busy when the worker freezes, and not for as long.
    let options = [("service", "constant"), ("mean_us", "5000"), ("servers", "100")];
    let group = group(&steady(1_000_000_000), Freezing(sim(&options)));
    assert!(group.late > 100, "{}", group.late);
    assert!(10 * group.late_busy <= group.late, "{} of {}", group.late_busy, group.late);
}
