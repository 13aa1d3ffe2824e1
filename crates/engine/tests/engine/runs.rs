//! Phases, stop rules, groups, outcomes and failures of whole runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::recording::Recording;
use crate::support::{closed, completed, constant, plan, poisson, record, sim, total};
use kvmark_driver::null::Null;
use kvmark_driver::{
    AnySession, Blocking, Capabilities, Description, Driver, Execution, Never, OpenError, Reply,
    Request,
};
use kvmark_engine::{Control, EngineError, Leave, Observer, Progress, run};
use kvmark_plan::*;
use kvmark_record::{RunRecord, StoppedBy, TotalRecord};

const VIRTUAL: [(&str, &str); 2] = [("clock", "virtual"), ("mean_us", "1000")];

fn of_outcome(record: &RunRecord, outcome: Outcome) -> u64 {
    let totals = record.totals.iter().filter(|total| !total.part && total.outcome == outcome);
    totals.map(|total| total.count).sum()
}

#[test]
fn a_count_is_met_exactly() {
    let mut plan = plan(closed(), 7);
    plan.phases[0].groups[0].operations = Some(1_001);
    let record = record(&plan, sim(&VIRTUAL));
    assert_eq!(total(&record, Kind::Read).count, 1_001);
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Operations);
    assert_eq!(record.phases[0].groups[0].issued, 1_001);
}

#[test]
fn ten_thousand_clients_are_tasks_of_one_worker() {
    let mut plan = plan(closed(), 10_000);
    plan.phases[0].groups[0].operations = Some(200_000);
    let record = record(&plan, sim(&[("clock", "virtual"), ("servers", "10000")]));
    assert_eq!(total(&record, Kind::Read).count, 200_000);
    assert_eq!(record.phases[0].workers.len(), 1);
}

#[test]
fn too_many_clients_of_a_blocking_driver_are_refused_with_the_reason() {
    let plan = plan(closed(), 5_000);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = kvmark_engine::Unobserved;
    let error = run(&plan, Recording::default(), folder.path(), None, &mut observer).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("5000 clients are too many") && text.contains("at most 1024"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_client_with_a_thread_and_no_schedule_intends_to_start_when_it_starts() {
    let mut closed_plan = plan(closed(), 2);
    closed_plan.phases[0].groups[0].operations = Some(1_000);
    let null = || Null::open(&BTreeMap::new()).unwrap();
    let unpaced = record(&closed_plan, null());
    let reads = total(&unpaced, Kind::Read);
    assert_eq!((reads.wait.quantiles.max, reads.wait.quantiles.mean), (0, 0.0));
    assert_eq!(reads.response, reads.service);
    assert_eq!(reads.count, 1_000);

    let mut open_plan = plan(constant(1e6), 2);
    open_plan.phases[0].groups[0].operations = Some(1_000);
    let open = record(&open_plan, null());
    assert!(total(&open, Kind::Read).wait.quantiles.max > 0);
}

#[test]
fn an_overloaded_open_run_counts_backlog_and_dropped_arrivals() {
    // 2,000 a second are due, one server completes 1,000, ten may be in flight.
    let mut plan = plan(constant(2_000.0), 10);
    plan.phases[0].duration_ns = Some(10_000_000_000);
    let options = [("clock", "virtual"), ("mean_us", "1000"), ("service", "constant")];
    let record = record(&plan, sim(&options));
    let group = &record.phases[0].groups[0];
    assert_eq!(group.due, Some(20_000));
    assert!((10_000..=10_011).contains(&group.issued), "{}", group.issued);
    assert_eq!(group.dropped, 20_000 - group.issued);
    assert_eq!(group.completed, group.issued);
    assert!(group.late > 9_000);
}

#[test]
fn think_time_spaces_a_closed_client() {
    let mut plan = plan(Arrival::Closed { think_time_ns: 9_000_000 }, 1);
    plan.phases[0].duration_ns = Some(1_000_000_000);
    let options = [("clock", "virtual"), ("mean_us", "1000"), ("service", "constant")];
    let record = record(&plan, sim(&options));
    assert_eq!(total(&record, Kind::Read).count, 100);
    assert_eq!(total(&record, Kind::Read).wait.quantiles.max, 0);
}

#[test]
fn groups_have_their_own_clients_rate_and_mix() {
    let mut plan = plan(constant(1_000.0), 50);
    let mut writers = plan.groups[0].clone();
    writers.name = "writers".to_owned();
    writers.arrival = poisson(100.0);
    writers.mix = vec![Weight { kind: Kind::Update, statement: None, weight: 1.0 }];
    plan.groups.push(writers);
    plan.phases[0].groups.push(ActiveGroup { group: 1, operations: None });
    plan.phases[0].duration_ns = Some(10_000_000_000);
    let options = [("clock", "virtual"), ("mean_us", "10")];
    let record = record(&plan, sim(&options));
    assert_eq!(total(&record, Kind::Read).count, 10_000);
    let updates = total(&record, Kind::Update).count;
    assert!((900..1_100).contains(&updates), "{updates}");
    assert_eq!(record.phases[0].groups[1].group, "writers");
}

#[test]
fn a_read_modify_write_is_measured_as_itself_and_as_its_parts() {
    let mut plan = plan(closed(), 1);
    plan.groups[0].mix = vec![Weight { kind: Kind::ReadModifyWrite, statement: None, weight: 1.0 }];
    plan.phases[0].groups[0].operations = Some(100);
    let options = [("clock", "virtual"), ("mean_us", "1000"), ("service", "constant")];
    let record = record(&plan, sim(&options));
    let whole = total(&record, Kind::ReadModifyWrite);
    assert_eq!((whole.count, whole.service.quantiles.min), (100, 2_000_000));
    let parts: Vec<_> = record.totals.iter().filter(|total| total.part).collect();
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|p| p.count == 100 && p.service.quantiles.max == 1_000_000));
    assert_eq!(record.phases[0].groups[0].completed, 100);
}

#[test]
fn each_missing_record_is_read_and_filled_once_by_one_client() {
    // With attempts, failed reads and fills are repeated.
    let policy =
        RetryPolicy { attempts: 20, jitter: Jitter::None, backoff_ns: 0, backoff_limit_ns: 0 };
    for (arrival, retry, error_share) in
        [(closed(), None, "0"), (constant(100.0), None, "0"), (closed(), Some(policy), "0.3")]
    {
        let mut plan = plan(arrival, 1);
        plan.groups[0].on_miss = Some(Fill { statement: None });
        plan.groups[0].keys.count = 50;
        plan.groups[0].keys.distribution = Distribution::Sequential;
        plan.groups[0].retry = retry;
        plan.phases[0].groups[0].operations = Some(200);
        let constant = [("service", "constant"), ("store", "memory"), ("error_share", error_share)];
        let record = record(&plan, sim(&[&VIRTUAL[..], &constant].concat()));
        let found = |name: &str, part: bool, outcome: Outcome| {
            let is_it = |one: &&TotalRecord| {
                (one.operation.as_str(), one.part, one.outcome) == (name, part, outcome)
            };
            record.totals.iter().find(is_it).expect("it is recorded")
        };
        let read = [Outcome::Miss, Outcome::Ok].map(|outcome| found("READ", false, outcome).count);
        let fills = found("INSERT", true, Outcome::Ok);
        assert_eq!((read, fills.count), ([50, 150], 50));
        assert_eq!((fills.service.quantiles.min, fills.wait.quantiles.max), (1_000_000, 0));
        let group = &record.phases[0].groups[0];
        assert_eq!((group.issued, group.completed, group.frontier), (200, 200, 1_000));
    }
}

#[test]
fn a_phase_ends_when_the_mean_rate_is_known_well_enough() {
    let mut plan = plan(closed(), 4);
    plan.interval_ns = 20_000_000;
    plan.phases[0].until = Some(Until {
        rule: UntilRule::CassandraStress,
        bound: 0.5,
        min_intervals: 10,
        max_intervals: Some(100),
    });
    let record = record(&plan, sim(&[("clock", "virtual"), ("mean_us", "500")]));
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Until);
    assert!(record.phases[0].relative_stderr.unwrap() < 0.5);
}

#[test]
fn an_operation_is_given_up_when_its_time_is_up_and_keeps_its_duration() {
    let mut plan = plan(constant(100.0), 200);
    plan.timeout_ns = Some(100_000_000);
    plan.phases[0].duration_ns = Some(3_000_000_000);
    let options =
        [("clock", "virtual"), ("mean_us", "10"), ("service", "constant"), ("stall", "1+1")];
    let record = record(&plan, sim(&options));
    let timed_out = of_outcome(&record, Outcome::Timeout);
    assert!((85..=91).contains(&timed_out), "{timed_out}");
    let total = record.totals.iter().find(|total| total.outcome == Outcome::Timeout).unwrap();
    assert!(total.service.quantiles.min >= 100_000_000);
    assert!(total.service.quantiles.max <= 103_000_000, "{}", total.service.quantiles.max);
}

#[test]
fn failures_and_misses_are_outcomes_with_durations_and_the_first_is_told() {
    let mut plan = plan(closed(), 2);
    plan.phases[0].groups[0].operations = Some(10_000);
    let options = [("clock", "virtual"), ("miss_share", "0.2"), ("error_share", "0.1")];
    let record = record(&plan, sim(&options));
    let (missed, failed) =
        (of_outcome(&record, Outcome::Miss), of_outcome(&record, Outcome::Unavailable));
    assert!((1_850..2_150).contains(&missed) && (900..1_100).contains(&failed));
    assert_eq!(record.notices.len(), 1);
    assert_eq!(record.notices[0].code, "operations_failed");
}

fn integrity_plan() -> Plan {
    let mut plan = plan(closed(), 2);
    plan.dataset.values = ValueKind::Integrity;
    plan.groups[0].check_values = ValueCheck::Full;
    let mut loader = plan.groups[0].clone();
    loader.name = "load".to_owned();
    loader.mix = vec![Weight { kind: Kind::Insert, statement: None, weight: 1.0 }];
    plan.groups.push(loader);
    let mut load = plan.phases[0].clone();
    load.name = PhaseName::Load;
    load.only_if_missing = true;
    load.groups = vec![ActiveGroup { group: 1, operations: Some(1_000) }];
    plan.phases[0].groups[0].operations = Some(2_000);
    plan.phases.insert(0, load);
    plan
}

#[test]
fn values_read_are_held_against_the_values_that_must_be_there() {
    let store = Recording::default();
    let healthy = record(&integrity_plan(), store.clone());
    assert_eq!(of_outcome(&healthy, Outcome::Ok), 3_000);
    let corrupt = Recording { corrupts: true, ..store };
    let record = record(&integrity_plan(), corrupt);
    assert_eq!(of_outcome(&record, Outcome::Mismatch), 2_000);
    // The session had no failure, independent of its last message.
    assert_eq!(record.notices[0].message, "2000 operations ended as mismatch");
}

#[test]
fn loading_is_skipped_when_the_dataset_is_there() {
    let store = Recording::default();
    let first = record(&integrity_plan(), store.clone());
    assert_eq!(first.phases[0].stopped_by, StoppedBy::Operations);
    let second = record(&integrity_plan(), store);
    assert_eq!(second.phases[0].stopped_by, StoppedBy::Skipped);
}

/// Loads 20,000 records unless they exist.
fn long_load() -> Plan {
    let mut plan = integrity_plan();
    plan.dataset.count = 20_000;
    plan.groups.iter_mut().for_each(|group| group.keys.count = 20_000);
    plan.phases[0].groups[0].operations = Some(20_000);
    plan
}

/// The numbers of the inserts that a store received, in order.
fn inserted(store: &Recording) -> Vec<u64> {
    let asked = store.multiset();
    let inserts = asked.iter().filter(|(_, kind, ..)| *kind == Kind::Insert);
    inserts.map(|(number, ..)| *number).collect()
}

#[test]
fn a_load_that_was_cut_short_goes_on_where_it_ended() {
    let store = Recording::default();
    let full = Recording { full_from: Some(12_000), store: store.store.clone(), ..<_>::default() };
    assert!(completed(&long_load(), full).failure.is_some());
    let second = record(&long_load(), store.clone());
    let found = second.phases[0].records_found.unwrap();
    assert_eq!(second.notices[0].code, "load_went_on");
    assert_eq!(second.notices[0].evidence["records_found"], found);
    // One worker may be ahead of the other: an operation's number isn't its record's.
    assert!((4_000..12_000).contains(&found), "{found}");
    assert_eq!(inserted(&store), (found..20_000).collect::<Vec<_>>());
    assert_eq!(second.phases[0].groups[0].issued, 20_000 - found);
    assert_eq!(second.phases[0].groups[0].frontier, 20_000);
    assert_eq!(store.store.lock().unwrap().len(), 20_000);
    assert_eq!(of_outcome(&second, Outcome::Ok), 2_000 + 20_000 - found);
    let third = record(&long_load(), store);
    assert_eq!(third.phases[0].stopped_by, StoppedBy::Skipped);
    assert_eq!(third.phases[0].records_found, None);
}

#[test]
fn each_share_of_a_load_that_was_cut_short_goes_on_where_it_ended_itself() {
    let store = Recording::default();
    let share = |index| Plan { share: Share { index, of: 2 }, ..long_load() };
    for (index, end) in [(0, 13_000), (1, 17_000)] {
        let store = store.store.clone();
        completed(&share(index), Recording { full_from: Some(end), store, ..<_>::default() });
    }
    for index in [0, 1] {
        let done = completed(&share(index), store.clone());
        let found = done.record.phases[0].records_found.unwrap();
        assert!((1_000..8_500).contains(&found), "{found}");
    }
    assert_eq!(store.store.lock().unwrap().len(), 20_000);
}

#[test]
fn a_load_without_matching_records_starts_from_the_beginning() {
    let store = Recording::default();
    // With one client, an operation's number is its record's.
    let mut alone = long_load();
    alone.groups.iter_mut().for_each(|group| group.clients = 1);
    record(&alone, store.clone());
    for (number, kind, key, _) in store.multiset() {
        // The end is missing, as after an interrupted load, and some records before it.
        if kind == Kind::Insert && (number >= 15_000 || number % 50 == 7) {
            store.store.lock().unwrap().remove(&key);
        }
    }
    let again = record(&long_load(), store.clone());
    assert_eq!(again.phases[0].records_found, None);
    assert_eq!(store.store.lock().unwrap().len(), 20_000);
}

#[test]
fn a_load_that_is_always_carried_out_begins_with_the_first_record() {
    let store = Recording::default();
    let full = Recording { full_from: Some(12_000), store: store.store.clone(), ..<_>::default() };
    completed(&long_load(), full);
    let mut plan = long_load();
    plan.phases[0].only_if_missing = false;
    let again = record(&plan, store.clone());
    assert_eq!(again.phases[0].records_found, None);
    assert_eq!(inserted(&store).len(), 20_000);
}

#[test]
fn whether_the_dataset_is_there_is_found_out_where_answers_take_time() {
    let mut plan = integrity_plan();
    plan.groups[0].check_values = ValueCheck::None;
    for clock in ["virtual", "real"] {
        let record = record(&plan, sim(&[("clock", clock), ("mean_us", "1000")]));
        assert_eq!(record.phases[0].stopped_by, StoppedBy::Skipped);
    }
}

#[test]
fn a_failing_load_ends_the_run_with_its_reason() {
    let store = Recording { full_from: Some(500), ..Recording::default() };
    let done = completed(&integrity_plan(), store);
    let failure = done.failure.unwrap();
    assert!(matches!(failure, EngineError::LoadFailed { .. }));
    assert!(failure.to_string().contains("there is no space left"), "{failure}");
    assert_eq!(done.record.phases.len(), 1);
    assert_eq!(done.record.phases[0].stopped_by, StoppedBy::Failed);
}

#[test]
fn a_panic_becomes_an_error_and_the_run_is_kept() {
    let store = Recording { panics_at: Some(700), ..Recording::default() };
    let mut plan = plan(closed(), 2);
    plan.interval_ns = 1_000_000;
    plan.phases[0].groups[0].operations = Some(1_000);
    let done = completed(&plan, store);
    let failure = done.failure.unwrap();
    assert!(failure.to_string().contains("planted"), "{failure}");
    assert_eq!(done.record.phases[0].stopped_by, StoppedBy::Failed);
}

/// Stops a run after a number of completions, and optionally again later.
struct Impatient {
    after: u64,
    seen: u64,
    control: Control,
}

impl Observer for Impatient {
    fn progress(&mut self, progress: &Progress) {
        self.seen = progress.completed;
    }

    fn poll(&mut self) -> Control {
        if self.seen >= self.after { self.control } else { Control::Continue }
    }
}

#[test]
fn an_interrupt_ends_the_run_and_keeps_the_measurement() {
    let mut plan = plan(closed(), 4);
    plan.interval_ns = 50_000_000;
    plan.phases[0].duration_ns = Some(3_600_000_000_000);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = Impatient { after: 100, seen: 0, control: Control::Stop };
    let system = sim(&[("mean_us", "500")]);
    let record = run(&plan, system, folder.path(), None, &mut observer).unwrap().record;
    assert!(record.interrupted);
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Cancelled);
    let rows = std::fs::read_to_string(folder.path().join("intervals.jsonl")).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let totals = rows.filter(|row| row["operation"] == "TOTAL");
    let counts = totals.map(|row| row["count"].as_u64().unwrap());
    let count = total(&record, Kind::Read).count;
    assert!(count >= 100 && counts.sum::<u64>() == count, "{count}");
}

/// Interrupts a run when its store has a request, and so not while it opens.
struct StopsWhenAsked(Recording);

impl Observer for StopsWhenAsked {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        let is_asked = !self.0.asked.lock().unwrap().is_empty();
        if is_asked { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn an_interrupt_ends_a_run_that_waits_for_its_probe_of_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let store = Recording { hangs_from: Some(0), ..Recording::default() };
    let mut observer = StopsWhenAsked(store.clone());
    let done = run(&integrity_plan(), store, folder.path(), None, &mut observer).unwrap();
    assert!(done.record.interrupted && done.failure.is_none());
    assert!(done.record.phases.is_empty());
}

/// A system whose sessions never open, or never close.
struct Sticky {
    opens: bool,
    is_closing: Arc<AtomicBool>,
}

struct StickySession(Arc<AtomicBool>);

fn hang() -> ! {
    loop {
        thread::park();
    }
}

impl Driver for Sticky {
    type Blocking = StickySession;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Blocking, true)
    }

    fn describe(&self) -> Description {
        Recording::default().describe()
    }

    fn session(&self, _: u32) -> Result<AnySession<StickySession, Never>, OpenError> {
        if !self.opens {
            hang();
        }
        Ok(AnySession::Blocking(StickySession(Arc::clone(&self.is_closing))))
    }
}

impl Blocking for StickySession {
    fn execute(&mut self, _: &Request<'_>, _: &mut Reply) -> Outcome {
        Outcome::Ok
    }

    fn last_failure(&self) -> Option<String> {
        None
    }
}

impl Drop for StickySession {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        hang();
    }
}

/// Ends a run that is closing the system.
struct Leaving(Arc<AtomicBool>);

impl Observer for Leaving {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        if self.0.load(Relaxed) { Control::Abandon } else { Control::Continue }
    }
}

#[test]
fn an_interrupt_ends_a_run_whose_system_hangs_while_it_opens_or_closes() {
    let mut plan = plan(closed(), 2);
    plan.phases[0].groups[0].operations = Some(10);
    let folder = tempfile::tempdir().unwrap();
    let is_closing = Arc::new(AtomicBool::new(false));
    let system = |opens| Sticky { opens, is_closing: Arc::clone(&is_closing) };
    let mut observer = Impatient { after: 0, seen: 0, control: Control::Stop };
    let error = run(&plan, system(false), folder.path(), None, &mut observer).unwrap_err();
    assert!(matches!(error, EngineError::Interrupted), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut observer = Leaving(Arc::clone(&is_closing));
    let done = run(&plan, system(true), folder.path(), None, &mut observer).unwrap();
    assert!(done.abandoned && !done.record.interrupted && done.failure.is_none());
    assert_eq!(total(&done.record, Kind::Read).count, 10);
}

/// Permits a phase after a number of calls, and stops the run after a number of polls.
struct Hesitant {
    asked: Vec<PhaseName>,
    lets_at: usize,
    looks: usize,
    stops_at: usize,
}

impl Observer for Hesitant {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        self.looks += 1;
        if self.looks >= self.stops_at { Control::Stop } else { Control::Continue }
    }

    fn may_begin(&mut self, phase: PhaseName) -> Leave {
        self.asked.push(phase);
        if self.asked.len() >= self.lets_at { Leave::Now } else { Leave::Wait }
    }
}

#[test]
fn a_phase_begins_when_the_observer_lets_it() {
    let mut plan = plan(closed(), 1);
    plan.phases[0].groups[0].operations = Some(10);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = Hesitant { asked: Vec::new(), lets_at: 3, looks: 0, stops_at: usize::MAX };
    let record = run(&plan, sim(&[]), folder.path(), None, &mut observer).unwrap().record;
    assert_eq!(observer.asked, [PhaseName::Measure; 3]);
    assert_eq!(total(&record, Kind::Read).count, 10);
}

/// Permits each phase some time after the first call.
struct Punctual {
    wall_ns: Option<u64>,
}

impl Observer for Punctual {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        Control::Continue
    }

    fn may_begin(&mut self, _: PhaseName) -> Leave {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = since.map_or(0, |since| since.as_nanos() as u64);
        Leave::At { wall_ns: *self.wall_ns.get_or_insert(now_ns + 120_000_000) }
    }
}

#[test]
fn a_phase_does_not_begin_before_the_instant_that_was_agreed() {
    let mut plan = plan(closed(), 1);
    plan.phases[0].groups[0].operations = Some(10);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = Punctual { wall_ns: None };
    let record = run(&plan, sim(&[]), folder.path(), None, &mut observer).unwrap().record;
    let began_wall_ns = record.started_wall_ns + record.phases[0].start_ns;
    assert!(began_wall_ns >= observer.wall_ns.unwrap());
    assert_eq!(total(&record, Kind::Read).count, 10);
}

#[test]
fn on_the_virtual_clock_an_agreed_instant_is_now() {
    let mut plan = plan(closed(), 1);
    plan.phases[0].groups[0].operations = Some(10);
    let folder = tempfile::tempdir().unwrap();
    let system = sim(&[("clock", "virtual")]);
    let record =
        run(&plan, system, folder.path(), None, &mut Punctual { wall_ns: None }).unwrap().record;
    assert!(record.phases[0].start_ns < 120_000_000);
}

/// Fills the store when the load asks for permission to begin.
struct Hasty {
    store: Recording,
    loaded: Recording,
}

impl Observer for Hasty {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        Control::Continue
    }

    fn may_begin(&mut self, _: PhaseName) -> Leave {
        let loaded = self.loaded.store.lock().expect("no test fails here").clone();
        self.store.store.lock().expect("no test fails here").extend(loaded);
        Leave::Now
    }
}

#[test]
fn whether_the_dataset_is_there_is_looked_at_before_the_load_may_begin() {
    let (store, loaded) = (Recording::default(), Recording::default());
    completed(&integrity_plan(), loaded.clone());
    let folder = tempfile::tempdir().unwrap();
    let mut observer = Hasty { store: store.clone(), loaded };
    let record = run(&integrity_plan(), store, folder.path(), None, &mut observer).unwrap().record;
    assert_ne!(record.phases[0].stopped_by, StoppedBy::Skipped);
}

#[test]
fn an_interrupt_ends_the_wait_for_a_phase_that_may_not_begin() {
    let plan = plan(closed(), 1);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = Hesitant { asked: Vec::new(), lets_at: usize::MAX, looks: 0, stops_at: 2 };
    let done = run(&plan, sim(&[]), folder.path(), None, &mut observer).unwrap();
    assert!(done.record.interrupted && done.failure.is_none());
    assert!(done.record.phases.is_empty());
}

/// Abandons a run after its store received a number of requests.
struct Hopeless {
    store: Recording,
    asked: usize,
}

impl Observer for Hopeless {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        let asked = self.store.asked.lock().expect("no test fails here").len();
        if asked >= self.asked { Control::Abandon } else { Control::Continue }
    }
}

#[test]
fn abandoning_waits_neither_for_the_phase_nor_for_an_operation_that_never_ends() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut plan = plan(closed(), 2);
    plan.interval_ns = 1_000_000;
    (plan.phases[0].duration_ns, plan.drain_limit_ns) = (Some(HOUR_NS), HOUR_NS);
    let folder = tempfile::tempdir().unwrap();
    let store = Recording { hangs_from: Some(5_000), ..Recording::default() };
    // The last two hang, one in each worker.
    let mut observer = Hopeless { store: store.clone(), asked: 5_001 };
    let done = run(&plan, store, folder.path(), None, &mut observer).unwrap();
    assert!(done.record.interrupted);
    assert!(matches!(done.failure, Some(EngineError::Unresponsive { workers: 2, .. })));
}

#[test]
fn other_workers_records_are_kept_when_one_worker_is_stuck() {
    let mut plan = plan(closed(), 3);
    plan.interval_ns = 20_000_000;
    (plan.phases[0].duration_ns, plan.drain_limit_ns) = (Some(300_000_000), 100_000_000);
    let store = Recording { hangs_at: Some(0), ..Recording::default() };
    let done = completed(&plan, store.clone());
    assert!(matches!(done.failure, Some(EngineError::Unresponsive { workers: 1, .. })));
    let asked = store.asked.lock().expect("no test fails here").len() as u64;
    assert_eq!(of_outcome(&done.record, Outcome::Miss), asked - 1);
    let missing = &done.record.notices[0];
    assert_eq!(missing.code, "worker_missing");
    let stuck = missing.evidence["worker"].as_u64().unwrap();
    let workers = done.record.phases[0].workers.iter().map(|worker| u64::from(worker.worker));
    assert_eq!(workers.collect::<Vec<_>>(), (0..3).filter(|n| *n != stuck).collect::<Vec<_>>());
}

#[test]
fn other_workers_records_until_a_panic_are_kept() {
    let store = Recording { panics_at: Some(0), ..Recording::default() };
    let mut plan = plan(closed(), 3);
    plan.phases[0].duration_ns = Some(300_000_000);
    let done = completed(&plan, store.clone());
    assert!(matches!(done.failure, Some(EngineError::Panicked { .. })));
    let asked = store.asked.lock().expect("no test fails here").len() as u64;
    assert_eq!(of_outcome(&done.record, Outcome::Miss), asked);
}

#[test]
fn operations_in_flight_at_the_end_are_waited_for_and_do_not_count_as_throughput() {
    let mut plan = plan(constant(10.0), 100);
    plan.phases[0].duration_ns = Some(1_050_000_000);
    let options =
        [("clock", "virtual"), ("mean_us", "200000"), ("service", "constant"), ("servers", "100")];
    let record = record(&plan, sim(&options));
    let reads = total(&record, Kind::Read);
    assert_eq!((reads.count, reads.in_window), (11, 9));
    assert_eq!(record.phases[0].drained_ns - record.phases[0].start_ns, 1_200_000_000);
}
