//! Generator lag, from the arrival times that a session reports.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{closed, plan, record};
use kvmark_driver::{
    AnySession, Capabilities, Completions, Description, Driver, Execution, Never, OpenError, Reply,
    Request, Session, Ticket,
};
use kvmark_engine::{Unobserved, run};
use kvmark_plan::{ActiveGroup, Outcome, Phase, PhaseName, Plan};
use kvmark_record::{LagRecord, PhaseRecord};

const MS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Answers at once, and reports that each answer arrived some time before its read.
#[derive(Clone, Copy)]
struct Late {
    /// Delay of the answer to operation `n`, in nanoseconds.
    lag_ns: fn(u64) -> u64,
    simulated: bool,
}

struct LateSession {
    driver: Late,
    asked: Vec<Ticket>,
    answered: u64,
    reply: Reply,
}

impl Driver for Late {
    type Blocking = Never;
    type Session = LateSession;

    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::all(Execution::Asynchronous, true);
        Capabilities { simulated_time: self.simulated, ..capabilities }
    }

    fn describe(&self) -> Description {
        let (system, version) = ("late".to_owned(), "1".to_owned());
        Description { system, version, configuration: BTreeMap::new() }
    }

    fn session(&self, _: u32) -> Result<AnySession<Never, LateSession>, OpenError> {
        let (asked, reply) = (Vec::new(), Reply::default());
        Ok(AnySession::Asynchronous(LateSession { driver: *self, asked, answered: 0, reply }))
    }
}

impl Session for LateSession {
    fn submit(&mut self, ticket: Ticket, _: &Request<'_>) {
        self.asked.push(ticket);
    }

    fn poll(&mut self, _: u64, done: &mut impl Completions) -> bool {
        let any = !self.asked.is_empty();
        for ticket in self.asked.drain(..) {
            let at_ns = done.stamp();
            done.issued(ticket, at_ns);
            let wall_ns = wall_ns();
            let read_ns = done.stamp();
            done.arrived(wall_ns - (self.driver.lag_ns)(self.answered), read_ns);
            self.answered += 1;
            done.completed(ticket, read_ns, Outcome::Ok, &self.reply);
        }
        any
    }

    fn give_up(&mut self, _: Ticket) {}
}

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is long past");
    since.as_nanos() as u64
}

/// Phases with these numbers of operations, by one client.
fn phases(phases: &[(PhaseName, u64)]) -> Plan {
    let mut plan = plan(closed(), 1);
    let phase = |(name, operations): &(PhaseName, u64)| Phase {
        name: *name,
        groups: vec![ActiveGroup { group: 0, operations: Some(*operations) }],
        only_if_missing: false,
        duration_ns: None,
        until: None,
    };
    plan.phases = phases.iter().map(phase).collect();
    plan
}

fn driver(lag_ns: fn(u64) -> u64) -> Late {
    Late { lag_ns, simulated: false }
}

fn lag(phase: &PhaseRecord) -> &LagRecord {
    phase.generator_lag.as_ref().expect("each read reports its arrival")
}

#[test]
fn each_phase_keeps_how_late_the_stamps_of_its_own_reads_were() {
    let plan = phases(&[(PhaseName::WarmUp, 100), (PhaseName::Measure, 1000)]);
    // One in twenty of the measurement's is later than the others.
    let lag_ns = |answered| match answered {
        0..100 => 400 * MS,
        100..1050 => 30 * MS,
        _ => 90 * MS,
    };
    let record = record(&plan, driver(lag_ns));
    let [warm_up, measure] = [0, 1].map(|phase| lag(&record.phases[phase]));
    assert_eq!((warm_up.count, measure.count), (100, 1000));
    assert_eq!((warm_up.discarded, measure.discarded), (0, 0));
    // A stamp can be later than planned if the thread is preempted. It can be earlier by the drift
    // of the two clocks since the interval began: nanoseconds.
    let rounded = |ns: u64| (ns + MS / 2) / MS;
    assert!(rounded(warm_up.lag.quantiles.min) >= 400, "{warm_up:?}");
    let quantiles = &measure.lag.quantiles;
    let found = [quantiles.min, quantiles.p50, quantiles.p90, quantiles.p99].map(rounded);
    assert_eq!(found, [30, 30, 30, 90], "{measure:?}");
}

#[test]
fn generator_lag_is_in_the_log_of_histograms_interval_by_interval() {
    let mut plan = phases(&[(PhaseName::Measure, 0)]);
    plan.phases[0].groups[0].operations = None;
    plan.phases[0].duration_ns = Some(300 * MS);
    plan.interval_ns = 20 * MS;
    let folder = tempfile::tempdir().unwrap();
    let completed = run(&plan, driver(|_| 30 * MS), folder.path(), None, &mut Unobserved).unwrap();
    let found = lag(&completed.record.phases[0]).count;
    assert_eq!(found, completed.record.phases[0].groups[0].completed);
    let log = std::fs::read_to_string(folder.path().join("histograms.hlog")).unwrap();
    let lines = log.lines().filter(|line| line.starts_with("Tag=generator-lag,"));
    assert!(lines.count() > 1, "{log}");
}

#[test]
fn where_wall_time_was_set_between_arrival_and_stamp_a_read_is_left_out_and_counted() {
    let plan = phases(&[(PhaseName::Measure, 10)]);
    let lag_ns = |answered| if answered < 3 { 2 * HOUR_NS } else { 0 };
    let record = record(&plan, driver(lag_ns));
    let found = lag(&record.phases[0]);
    assert_eq!((found.count, found.discarded), (7, 3));
    assert!(found.lag.quantiles.max < HOUR_NS);
}

#[test]
fn simulated_time_has_no_generator_lag() {
    let plan = phases(&[(PhaseName::Measure, 10)]);
    let record = record(&plan, Late { lag_ns: |_| MS, simulated: true });
    assert_eq!(record.phases[0].generator_lag, None);
}
