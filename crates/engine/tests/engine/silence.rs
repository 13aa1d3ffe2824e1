//! Systems that stop answering, and clients that rarely send requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::recording::Recording;
use crate::support::{closed, completed, constant, plan, sim};
use kvmark_driver::{
    AnySession, Capabilities, Completions, Description, Driver, Execution, Never, OpenError, Reply,
    Request, Session, Ticket,
};
use kvmark_engine::{Completed, Control, EngineError, Observer, Progress, run};
use kvmark_plan::*;
use kvmark_record::StoppedBy;

const SECOND_NS: u64 = 1_000_000_000;
const VIRTUAL: (&str, &str) = ("clock", "virtual");

fn has_stalled(done: &Completed) -> bool {
    matches!(done.failure, Some(EngineError::NoAnswer { .. }))
}

#[test]
fn a_silence_as_long_as_the_limit_ends_the_phase_to_the_nanosecond() {
    let mut plan = plan(closed(), 8);
    plan.stall_limit_ns = Some(5 * SECOND_NS);
    plan.phases[0].duration_ns = Some(60 * SECOND_NS);
    let options = [VIRTUAL, ("mean_us", "1000"), ("service", "constant"), ("stall", "10+7")];
    let done = completed(&plan, sim(&options));
    assert!(has_stalled(&done));
    let phase = &done.record.phases[0];
    assert_eq!(phase.stopped_by, StoppedBy::Failed);
    // The last answer came when the stall began, or up to a service time before it.
    let ends_ns = 15 * SECOND_NS - 1_000_000..=15 * SECOND_NS;
    assert!(ends_ns.contains(&phase.end_ns), "{phase:?}");
    assert_eq!(phase.groups[0].abandoned, 8);
    let notice = done.record.notices.iter().find(|notice| notice.code == "no_answer").unwrap();
    assert_eq!((notice.phase, &notice.evidence["stall_limit_s"]), (Some(0), &5.0.into()));
}

#[test]
fn a_silence_shorter_than_the_limit_or_without_one_ends_nothing() {
    let options = [VIRTUAL, ("mean_us", "1000"), ("service", "constant"), ("stall", "10+7")];
    for limit_ns in [None, Some(8 * SECOND_NS)] {
        let mut plan = plan(closed(), 8);
        plan.stall_limit_ns = limit_ns;
        plan.phases[0].duration_ns = Some(30 * SECOND_NS);
        let done = completed(&plan, sim(&options));
        assert!(done.failure.is_none(), "{:?}", done.failure);
        assert_eq!(done.record.phases[0].stopped_by, StoppedBy::Duration);
    }
}

#[test]
fn requests_that_are_given_up_are_no_answers() {
    let mut plan = plan(closed(), 4);
    (plan.stall_limit_ns, plan.timeout_ns) = (Some(5 * SECOND_NS), Some(SECOND_NS / 10));
    plan.phases[0].duration_ns = Some(60 * SECOND_NS);
    let options = [VIRTUAL, ("mean_us", "1000"), ("service", "constant"), ("stall", "2+100")];
    let done = completed(&plan, sim(&options));
    assert!(has_stalled(&done));
    let end_ns = done.record.phases[0].end_ns;
    assert!((7 * SECOND_NS - 1_000_000..=7 * SECOND_NS).contains(&end_ns), "{end_ns}");
}

#[test]
fn rare_requests_are_not_mistaken_for_silence() {
    for arrival in [Arrival::Closed { think_time_ns: 40 * SECOND_NS }, constant(0.02)] {
        let mut plan = plan(arrival, 1);
        (plan.stall_limit_ns, plan.timeout_ns) = (Some(5 * SECOND_NS), Some(SECOND_NS));
        plan.phases[0].duration_ns = Some(600 * SECOND_NS);
        // One request in the middle is given up after a second.
        let stalls = ("stall", "119+10,149+10");
        let options = [VIRTUAL, ("mean_us", "1000"), ("service", "constant"), stalls];
        let done = completed(&plan, sim(&options));
        assert!(done.failure.is_none(), "{:?}", done.failure);
        let timeouts = done.record.totals.iter().filter(|one| one.outcome == Outcome::Timeout);
        assert_eq!(timeouts.map(|total| total.count).sum::<u64>(), 1);
    }
}

#[test]
fn a_silence_in_the_drain_ends_the_run_too() {
    let mut plan = plan(constant(10.0), 50);
    (plan.stall_limit_ns, plan.drain_limit_ns) = (Some(5 * SECOND_NS), 3600 * SECOND_NS);
    plan.phases[0].duration_ns = Some(10 * SECOND_NS);
    let options = [VIRTUAL, ("mean_us", "10"), ("service", "constant"), ("stall", "8+100000")];
    let done = completed(&plan, sim(&options));
    assert!(has_stalled(&done));
    assert_eq!(done.record.phases[0].stopped_by, StoppedBy::Failed);
}

#[test]
fn a_call_that_never_returns_ends_the_phase_and_the_others_records_are_kept() {
    let mut plan = plan(Arrival::Closed { think_time_ns: 1_000_000 }, 2);
    plan.interval_ns = 10_000_000;
    plan.stall_limit_ns = Some(SECOND_NS);
    (plan.phases[0].duration_ns, plan.drain_limit_ns) = (Some(3600 * SECOND_NS), 3600 * SECOND_NS);
    let store = Recording { hangs_from: Some(200), ..Recording::default() };
    let done = completed(&plan, store.clone());
    assert!(has_stalled(&done) && done.abandoned, "{:?}", done.failure);
    let sentence = done.failure.as_ref().unwrap().to_string();
    assert!(sentence.starts_with("recording answered nothing for 1 s"), "{sentence}");
    let record = done.record;
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Failed);
    let kept: u64 = record.totals.iter().map(|total| total.count).sum();
    // A worker's records of the interval in which its call began aren't sent.
    let asked = store.asked.lock().unwrap().len() as u64;
    assert!(kept > 0 && kept < asked, "{kept} of {asked}");
}

#[test]
fn one_call_that_hangs_ends_nothing_while_others_are_answered() {
    let mut plan = plan(closed(), 3);
    plan.stall_limit_ns = Some(SECOND_NS);
    (plan.phases[0].duration_ns, plan.drain_limit_ns) = (Some(2 * SECOND_NS), 100_000_000);
    let store = Recording { hangs_at: Some(0), ..Recording::default() };
    let done = completed(&plan, store);
    assert!(matches!(done.failure, Some(EngineError::Unresponsive { workers: 1, .. })));
}

#[test]
fn a_look_for_records_that_is_never_answered_ends_the_run() {
    let mut plan = plan(closed(), 1);
    plan.stall_limit_ns = Some(SECOND_NS);
    plan.phases[0].name = PhaseName::Load;
    plan.phases[0].only_if_missing = true;
    let hanging = Recording { hangs_from: Some(0), ..Recording::default() };
    let done = completed(&plan, hanging);
    assert!(has_stalled(&done) && done.abandoned && done.record.phases.is_empty());
    let done = completed(&plan, Mute::default());
    assert!(has_stalled(&done) && !done.abandoned);
    assert!(done.failure.unwrap().to_string().starts_with("the server at mute:1 answered"));
}

/// A system of two servers that answers a few requests and then none; each turn ends at once.
#[derive(Clone, Default)]
struct Mute {
    answers: usize,
    given: Arc<Mutex<usize>>,
}

struct MuteSession {
    system: Mute,
    submitted: VecDeque<Ticket>,
    reply: Reply,
}

impl Driver for Mute {
    type Blocking = Never;
    type Session = MuteSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, false)
    }

    fn describe(&self) -> Description {
        let configuration = BTreeMap::new();
        Description { system: "Mute".to_owned(), version: "1".to_owned(), configuration }
    }

    fn session(&self, _: u32) -> Result<AnySession<Never, MuteSession>, OpenError> {
        let (submitted, reply) = (VecDeque::new(), Reply::default());
        Ok(AnySession::Asynchronous(MuteSession { system: self.clone(), submitted, reply }))
    }
}

impl Session for MuteSession {
    fn submit(&mut self, ticket: Ticket, _: &Request<'_>) {
        self.submitted.push_back(ticket);
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        std::thread::sleep(Duration::from_nanos(patience_ns.min(1_000_000)));
        let mut has_read = false;
        while let Some(ticket) = self.submitted.pop_front() {
            let at_ns = done.stamp();
            done.issued(ticket, at_ns);
            let mut given = self.system.given.lock().unwrap();
            if *given < self.system.answers {
                *given += 1;
                has_read = true;
                done.completed(ticket, at_ns, Outcome::Ok, &self.reply);
            }
        }
        has_read
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.submitted.retain(|other| *other != ticket);
    }

    fn awaited(&self) -> Vec<String> {
        vec!["mute:1".to_owned()]
    }
}

/// Makes faults active for some time, and keeps the reported silence.
struct Watching {
    disturbed_until: Instant,
    disturbed_last: Instant,
    silences_ns: Vec<Option<u64>>,
}

impl Watching {
    fn new(disturbed: Duration) -> Self {
        let now = Instant::now();
        Self { disturbed_until: now + disturbed, disturbed_last: now, silences_ns: Vec::new() }
    }
}

impl Observer for Watching {
    fn progress(&mut self, progress: &Progress) {
        self.silences_ns.push(progress.silent_ns);
    }

    fn poll(&mut self) -> Control {
        Control::Continue
    }

    fn is_disturbed(&mut self) -> bool {
        let now = Instant::now();
        if now < self.disturbed_until {
            self.disturbed_last = now;
        }
        now < self.disturbed_until
    }
}

#[test]
fn servers_that_owe_an_answer_are_named_and_how_long_they_do_is_told() {
    let mut plan = plan(closed(), 4);
    (plan.stall_limit_ns, plan.workers) = (Some(2 * SECOND_NS), 2);
    let folder = tempfile::tempdir().unwrap();
    let mut watching = Watching::new(Duration::ZERO);
    let system = Mute { answers: 1_000, ..Mute::default() };
    let done = run(&plan, system, folder.path(), None, &mut watching).unwrap();
    let sentence = done.failure.unwrap().to_string();
    assert!(sentence.starts_with("the server at mute:1 answered nothing for 2 s"), "{sentence}");
    assert!(!done.abandoned);
    let kept: u64 = done.record.totals.iter().map(|total| total.count).sum();
    assert_eq!(kept, 1_000);
    assert!(watching.silences_ns.iter().flatten().any(|silent_ns| *silent_ns >= SECOND_NS / 2));
}

#[test]
fn while_a_planned_fault_acts_no_silence_counts_and_behind_it_the_limit_counts_anew() {
    let mut plan = plan(closed(), 2);
    plan.stall_limit_ns = Some(SECOND_NS);
    let folder = tempfile::tempdir().unwrap();
    let mut watching = Watching::new(Duration::from_secs(3));
    let began = Instant::now();
    let done = run(&plan, Mute::default(), folder.path(), None, &mut watching).unwrap();
    assert!(has_stalled(&done));
    assert!(watching.disturbed_last > began + Duration::from_secs(1));
    assert!(watching.disturbed_last.elapsed() >= Duration::from_secs(1));
}

/// A user that ends the run at once.
struct Leaving;

impl Observer for Leaving {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        Control::Stop
    }
}

#[test]
fn an_interrupted_run_waits_two_seconds_for_a_silent_system() {
    let mut plan = plan(closed(), 2);
    plan.drain_limit_ns = 3600 * SECOND_NS;
    let folder = tempfile::tempdir().unwrap();
    let done = run(&plan, Mute::default(), folder.path(), None, &mut Leaving).unwrap();
    assert!(done.failure.is_none() && !done.abandoned, "{:?}", done.failure);
    assert_eq!(done.record.phases[0].stopped_by, StoppedBy::Cancelled);

    let hanging = Recording { hangs_from: Some(0), ..Recording::default() };
    let folder = tempfile::tempdir().unwrap();
    let done = run(&plan, hanging, folder.path(), None, &mut Leaving).unwrap();
    assert!(matches!(done.failure, Some(EngineError::Unresponsive { workers: 2, .. })));
}

#[test]
fn clients_on_threads_end_intervals_while_they_wait() {
    // Nothing is due except at the start, or no think time has passed.
    for arrival in [constant(0.1), Arrival::Closed { think_time_ns: 5 * SECOND_NS }] {
        let mut plan = plan(arrival, 4);
        plan.interval_ns = 20_000_000;
        plan.phases[0].duration_ns = Some(2 * SECOND_NS);
        let closed = intervals_before_the_end(&plan);
        assert!(closed > 0, "{closed}");
    }
}

/// Counts the closed intervals in the log.
struct Counting {
    log: std::path::PathBuf,
    most: usize,
    ends_ns: u64,
}

impl Observer for Counting {
    fn progress(&mut self, progress: &Progress) {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        if progress.elapsed_ns < self.ends_ns {
            let starts = text.lines().filter(|line| line.contains("\"TOTAL\""));
            self.most = self.most.max(starts.count());
        }
    }

    fn poll(&mut self) -> Control {
        Control::Continue
    }
}

/// How many intervals were closed before the phase was over.
fn intervals_before_the_end(plan: &Plan) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("intervals.jsonl");
    let ends_ns = plan.phases[0].duration_ns.unwrap();
    let mut counting = Counting { log, most: 0, ends_ns };
    let done = run(plan, Recording::default(), folder.path(), None, &mut counting).unwrap();
    assert!(done.failure.is_none(), "{:?}", done.failure);
    counting.most
}

#[test]
fn an_idle_store_has_no_client_in_flight_and_its_issued_operations() {
    let mut plan = plan(constant(4.0), 8);
    plan.interval_ns = 100_000_000;
    plan.phases[0].duration_ns = Some(SECOND_NS);
    let folder = tempfile::tempdir().unwrap();
    let mut observer = kvmark_engine::Unobserved;
    let done = run(&plan, Recording::default(), folder.path(), None, &mut observer).unwrap();
    assert!(done.failure.is_none());
    let text = std::fs::read_to_string(folder.path().join("intervals.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let rows: Vec<_> = rows.filter(|row| row["operation"] == "TOTAL").collect();
    assert!(rows.len() >= 10, "{}", rows.len());
    // An operation takes microseconds: hardly any interval ends with one in flight.
    let idle = rows.iter().filter(|row| row["in_flight"] == 0 && row["issued"] == row["due"]);
    assert!(idle.count() > rows.len() / 2, "{rows:?}");
}
