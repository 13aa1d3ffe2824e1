//! A warm-up continues into the measurement without a gap.

use crate::support::recording::Recording;
use crate::support::{assert_close, closed, constant, plan, poisson, record, sim};
use kvmark_engine::{Control, Leave, Observer, Progress, run};
use kvmark_plan::*;
use kvmark_record::{RunRecord, StoppedBy, TotalRecord};
use serde_json::Value;

const S: u64 = 1_000_000_000;

/// A plan that warms up for some time and measures for another.
fn warmed(arrival: Arrival, clients: u32, warm_ns: u64, measured_ns: u64) -> Plan {
    let mut plan = plan(arrival, clients);
    let mut warm_up = plan.phases[0].clone();
    (warm_up.name, warm_up.duration_ns) = (PhaseName::WarmUp, Some(warm_ns));
    plan.phases[0].duration_ns = Some(measured_ns);
    plan.phases.insert(0, warm_up);
    plan
}

fn total_of(record: &RunRecord, phase: u32) -> &TotalRecord {
    record.totals.iter().find(|total| total.phase == phase).expect("something was measured")
}

/// 11,000 a second are due and 10,000 complete, so that ten seconds leave a second of work.
fn overloaded() -> Plan {
    warmed(constant(11_000.0), 100_000, 10 * S, S)
}

const CONSTANT: [(&str, &str); 3] =
    [("clock", "virtual"), ("service", "constant"), ("mean_us", "100")];

#[test]
fn the_queue_of_the_warm_up_is_there_when_measuring_begins() {
    let record = record(&overloaded(), sim(&CONSTANT));
    let measured = total_of(&record, 1);
    assert_eq!((measured.count, measured.in_window), (11_000, 10_000));
    assert_close("median", measured.response.quantiles.p50 as f64, 1.05e9, 0.001);
    assert_close("least", measured.response.quantiles.min as f64, 1.0e9, 0.001);
    assert_close("largest", measured.response.quantiles.max as f64, 1.1e9, 0.001);
    let warm_up = total_of(&record, 0);
    // An operation that ends at the end of the window belongs to the next phase.
    assert_eq!((warm_up.count, warm_up.in_window), (110_000, 99_999));
    let [warm_up, measured] = &record.phases[..] else { panic!("two phases") };
    assert_eq!(measured.start_ns, warm_up.end_ns);
    assert_eq!(measured.groups[0].due, Some(11_000));
    assert_eq!((measured.groups[0].issued, measured.groups[0].dropped), (11_000, 0));
    let ends = [warm_up, measured].map(|phase| phase.stopped_by);
    assert_eq!(ends, [StoppedBy::Duration; 2]);
}

#[test]
fn an_interval_counts_its_completions_and_has_the_durations_of_its_phase() {
    let folder = tempfile::tempdir().unwrap();
    let mut observer = kvmark_engine::Unobserved;
    run(&overloaded(), sim(&CONSTANT), folder.path(), None, &mut observer).unwrap();
    let rows = std::fs::read_to_string(folder.path().join("intervals.jsonl")).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["operation"] == "TOTAL").collect();
    let said = |row: &Value| {
        let counts = ["phase", "count", "carried", "backlog", "in_flight"];
        (row["drain"] == true, counts.map(|name| row[name].as_u64().unwrap()))
    };
    let own: Vec<_> = rows[rows.len() - 3..].iter().map(said).collect();
    assert_eq!(own[0], (false, [1, 10_000, 10_000, 0, 11_001]));
    assert_eq!(own[1], (true, [0, 10_001, 0, 0, 0]));
    assert_eq!(own[2], (true, [1, 11_001, 1, 0, 0]));
    assert!(rows[rows.len() - 3]["response_ns_p50"].is_null());
}

#[test]
fn a_queue_is_stationary_from_the_begin_of_the_measurement_on_however_long_the_warm_up() {
    // M/M/1 with a load of 0.9: response times have a mean of 1 ms. An empty queue takes longer
    // than the measurement to fill.
    for warm_ns in [S * 3 / 10, S * 6 / 10] {
        let mut sums = (0.0, 0.0);
        for seed in 0..60u64 {
            let mut plan = warmed(poisson(9_000.0), 100_000, warm_ns, S / 20);
            plan.seeds.schedule = seed;
            let seed = (seed + 1_000).to_string();
            let options = [("clock", "virtual"), ("mean_us", "100"), ("seed", seed.as_str())];
            let record = record(&plan, sim(&options));
            let measured = total_of(&record, 1);
            sums.0 += measured.response.quantiles.mean * measured.count as f64;
            sums.1 += measured.count as f64;
        }
        assert_close("mean", sums.0 / sums.1, 1e6, 0.25);
    }
}

#[test]
fn clients_on_threads_go_on_too_and_every_operation_is_counted_once() {
    for arrival in [closed(), constant(5_000.0), poisson(5_000.0)] {
        let mut plan = warmed(arrival, 3, S / 10, S / 10);
        plan.interval_ns = S / 50;
        let store = Recording::default();
        let record = record(&plan, store.clone());
        let asked = store.asked.lock().expect("no test fails here").len() as u64;
        assert_eq!(record.totals.iter().map(|total| total.count).sum::<u64>(), asked);
        assert_eq!(record.phases[1].start_ns, record.phases[0].end_ns);
        assert_eq!(record.phases[1].workers.len(), 3);
        for phase in &record.phases {
            assert_eq!(phase.groups[0].issued, phase.groups[0].completed);
        }
    }
}

#[test]
fn a_number_of_operations_counts_those_of_the_measurement() {
    let mut plan = warmed(closed(), 4, S, S);
    plan.phases[1].duration_ns = None;
    plan.phases[1].groups[0].operations = Some(1_000);
    let record = record(&plan, sim(&CONSTANT));
    assert_eq!(total_of(&record, 1).count, 1_000);
    assert_eq!(record.phases[1].stopped_by, StoppedBy::Operations);
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Duration);
}

/// Keeps its calls, with the number of requests at that time.
struct Asked {
    store: Recording,
    phases: Vec<(PhaseName, usize)>,
    stops: bool,
}

impl Observer for Asked {
    fn progress(&mut self, _: &Progress) {}

    fn poll(&mut self) -> Control {
        let asked = self.store.asked.lock().expect("no test fails here").len();
        if self.stops && asked > 0 { Control::Stop } else { Control::Continue }
    }

    fn may_begin(&mut self, phase: PhaseName) -> Leave {
        let asked = self.store.asked.lock().expect("no test fails here").len();
        self.phases.push((phase, asked));
        Leave::Now
    }
}

#[test]
fn leave_to_measure_is_given_before_the_warm_up_begins() {
    let folder = tempfile::tempdir().unwrap();
    let store = Recording::default();
    let mut observer = Asked { store: store.clone(), phases: Vec::new(), stops: false };
    let plan = warmed(closed(), 2, S / 20, S / 20);
    run(&plan, store, folder.path(), None, &mut observer).unwrap();
    assert_eq!(observer.phases, [(PhaseName::WarmUp, 0), (PhaseName::Measure, 0)]);
    let events = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds: Vec<_> =
        events.map(|event| format!("{} {}", event["kind"], event["name"])).collect();
    let expected = [
        r#""phase_started" "warm_up""#,
        r#""phase_started" "measure""#,
        r#""phase_ended" "warm_up""#,
        r#""phase_ended" "measure""#,
    ];
    assert_eq!(kinds[1..5], expected);
}

#[test]
fn an_interrupted_warm_up_has_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let store = Recording::default();
    let mut observer = Asked { store: store.clone(), phases: Vec::new(), stops: true };
    let plan = warmed(closed(), 2, 3_600 * S, S);
    let record = run(&plan, store, folder.path(), None, &mut observer).unwrap().record;
    assert!(record.interrupted);
    assert_eq!(record.phases.len(), 1);
    assert_eq!(record.phases[0].stopped_by, StoppedBy::Cancelled);
}
