//! From samples to rows, totals and files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use kvmark_plan::{Kind, Outcome, PhaseName};
use kvmark_record::{
    Action, Batch, ClosedInterval, Event, EventKind, GroupAccounting, IntervalRow, LONGEST_NS,
    Names, Notice, PhaseAggregate, RecordError, Recorder, RunWriter, Sample, TotalRecord,
};
use serde_json::Value;

const MS: u64 = 1_000_000;
const INTERVAL_NS: u64 = 1000 * MS;
const START_NS: u64 = 500 * MS;

fn sample(kind: Kind, outcome: Outcome, wait_ns: u64, service_ns: u64) -> Sample {
    let issued_ns = 10 + wait_ns;
    let completed_ns = issued_ns + service_ns;
    Sample {
        action: Action::Kind(kind),
        outcome,
        intended_ns: 10,
        free_ns: 10,
        issued_ns,
        completed_ns,
        rows: 1,
    }
}

fn read(service_ns: u64) -> Sample {
    sample(Kind::Read, Outcome::Ok, 0, service_ns)
}

/// A batch of group 0 of two.
fn batch(samples: &[Sample]) -> Batch {
    let mut recorder = Recorder::new(&names());
    samples.iter().for_each(|sample| recorder.record(0, sample));
    recorder.take()
}

/// A batch of sampled reads.
fn lags(lags_ns: &[Option<u64>]) -> Batch {
    let mut recorder = Recorder::new(&names());
    lags_ns.iter().for_each(|lag_ns| recorder.record_lag(*lag_ns));
    recorder.take()
}

fn names() -> Names {
    let groups = vec!["readers".to_owned(), "slow writers".to_owned()];
    Names { groups, statements: Vec::new() }
}

fn phase(name: PhaseName) -> PhaseAggregate {
    PhaseAggregate::new(1, name, Arc::new(names()), START_NS, INTERVAL_NS)
}

fn accounting(group: usize) -> GroupAccounting {
    GroupAccounting {
        group,
        due: None,
        issued: 5,
        read_late: 0,
        backlog: None,
        in_flight: 1,
        frontier: 40,
    }
}

fn close(phase: &mut PhaseAggregate, interval: u32) -> ClosedInterval {
    let end_ns = START_NS + (u64::from(interval) + 1) * INTERVAL_NS;
    phase.close(interval, false, end_ns, &[accounting(0), accounting(1)])
}

/// A closed interval with these samples in group 0.
fn closed(name: PhaseName, samples: &[Sample]) -> ClosedInterval {
    let mut phase = phase(name);
    phase.add(0, false, &batch(samples));
    close(&mut phase, 0)
}

fn row<'a>(interval: &'a ClosedInterval, operation: &str, outcome: &str) -> &'a IntervalRow {
    let wanted = |row: &&IntervalRow| {
        row.operation == operation && serde_json::to_value(row.outcome).expect("JSON") == outcome
    };
    interval.rows.iter().find(wanted).expect("the row is there")
}

fn decode(text: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(text).expect("base64");
    Deserializer::new().deserialize(&mut bytes.as_slice()).expect("V2 with deflate")
}

/// Arbitrary durations from 1 ns to about 4 s.
fn durations(seed: u64, n: u64) -> Vec<Sample> {
    let noise = |n: u64| (n ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..n).map(|n| read(1 + (noise(n) >> 32 >> (noise(n) % 32)))).collect()
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).expect("the file is there");
    assert!(text.is_empty() || text.ends_with('\n'), "{file} ends in a whole line");
    text.lines().map(str::to_owned).collect()
}

fn writer(folder: &Path) -> Result<RunWriter, RecordError> {
    RunWriter::create(folder, 1_700_000_000_250_000_000, Arc::new(names()))
}

#[test]
fn service_wait_and_response_time_come_from_the_three_instants() {
    let interval = closed(
        PhaseName::Measure,
        &[sample(Kind::Read, Outcome::Ok, 300, 1000), sample(Kind::Read, Outcome::Ok, 100, 2000)],
    );
    let row = row(&interval, "READ", "ok");
    let [service, response, wait] =
        [&row.service, &row.response, &row.wait].map(|part| part.as_ref().expect("two values"));
    assert_eq!((service.min, service.max), (1000, 2000));
    assert_eq!((response.min, response.max), (1300, 2100));
    assert_eq!((wait.min, wait.max), (100, 300));
    assert!((response.mean - 1700.0).abs() < 1e-9);
}

#[test]
fn least_mean_and_largest_are_exact_and_no_quantile_lies_beyond_them() {
    let interval = closed(PhaseName::Measure, &[read(1_234_567), read(7_654_321)]);
    let service = row(&interval, "READ", "ok").service.clone().expect("two values");
    assert_eq!((service.min, service.p999, service.max), (1_234_567, 7_654_321, 7_654_321));
    assert!((service.mean - 4_444_444.0).abs() < 1e-9);
    assert!(service.p50.abs_diff(1_234_567) <= 1_234_567 / 1000);
}

#[test]
fn durations_beyond_an_hour_are_counted_at_the_hour_and_the_largest_stays_exact() {
    let interval = closed(PhaseName::Measure, &[read(2 * LONGEST_NS), read(3 * LONGEST_NS)]);
    let service = row(&interval, "READ", "ok").service.clone().expect("two values");
    assert_eq!((service.min, service.max), (2 * LONGEST_NS, 3 * LONGEST_NS));
}

#[test]
fn operations_with_the_same_instants_count_as_if_others_came_between() {
    let wait = |wait_ns| sample(Kind::Read, Outcome::Ok, wait_ns, 500);
    let late = wait(2 * MS);
    let kinds = [wait(300), wait(100), late, Sample { free_ns: late.issued_ns, ..late }];
    for n in [1, 2, 70_000] {
        let together = kinds.iter().flat_map(|sample| std::iter::repeat_n(*sample, n)).collect();
        let [together, apart]: [Vec<Sample>; 2] = [together, kinds.repeat(n)];
        let rows = |samples: &[Sample]| closed(PhaseName::Measure, samples).rows;
        assert_eq!(
            serde_json::to_value(rows(&together)).expect("JSON"),
            serde_json::to_value(rows(&apart)).expect("JSON"),
            "{n} of each"
        );
    }
}

#[test]
fn a_clock_that_steps_back_gives_no_time_instead_of_centuries() {
    let backwards = Sample { intended_ns: 50, issued_ns: 40, completed_ns: 30, ..read(0) };
    let interval = closed(PhaseName::Measure, &[backwards]);
    assert_eq!(row(&interval, "READ", "ok").response.as_ref().expect("a value").max, 0);
}

#[test]
fn misses_and_failures_have_series_of_their_own_and_total_has_them_all() {
    let interval = closed(
        PhaseName::Measure,
        &[
            read(100),
            sample(Kind::Read, Outcome::Miss, 0, 200),
            sample(Kind::Update, Outcome::Timeout, 0, 300),
        ],
    );
    assert_eq!(row(&interval, "READ", "ok").count, 1);
    assert_eq!(row(&interval, "READ", "miss").count, 1);
    assert_eq!(row(&interval, "UPDATE", "timeout").count, 1);
    let total = row(&interval, "TOTAL", "any");
    assert_eq!((total.count, total.rows), (3, 3));
    assert_eq!(total.service.as_ref().expect("three values").max, 300);
}

#[test]
fn parts_of_a_read_modify_write_are_not_in_total() {
    let part = Sample { action: Action::Part(Kind::Read), ..read(100) };
    let whole = sample(Kind::ReadModifyWrite, Outcome::Ok, 0, 250);
    let interval = closed(PhaseName::Measure, &[part, whole]);
    assert_eq!(row(&interval, "TOTAL", "any").count, 1);
    assert!(row(&interval, "READ", "ok").part);
}

#[test]
fn a_group_that_completed_nothing_has_a_total_row_with_count_0_and_no_quantiles() {
    let interval = closed(PhaseName::Measure, &[]);
    let rows: Vec<Value> =
        interval.rows.iter().map(|row| serde_json::to_value(row).expect("JSON")).collect();
    assert_eq!(rows.len(), 2);
    for (row, group) in rows.iter().zip(["readers", "slow writers"]) {
        assert_eq!(row["group"], group);
        assert_eq!((&row["operation"], &row["outcome"]), (&"TOTAL".into(), &"any".into()));
        assert_eq!((&row["count"], &row["issued"]), (&0.into(), &5.into()));
        assert_eq!(row["service_ns_p99"], Value::Null);
    }
}

#[test]
fn a_row_has_the_columns_of_the_format_in_their_order() {
    let interval = closed(PhaseName::WarmUp, &[sample(Kind::Read, Outcome::Ok, 2 * MS, 100)]);
    let json = serde_json::to_string(row(&interval, "TOTAL", "any")).expect("JSON");
    let expected = concat!(
        r#"{"phase":1,"phase_name":"warm_up","drain":false,"start_ns":500000000,"#,
        r#""end_ns":1500000000,"group":"readers","operation":"TOTAL","part":false,"#,
        r#""outcome":"any","count":1,"carried":0,"rows":1,"service_ns_min":100,"#,
        r#""service_ns_mean":100.0,"#,
        r#""service_ns_p50":100,"service_ns_p90":100,"service_ns_p95":100,"#,
        r#""service_ns_p99":100,"service_ns_p999":100,"service_ns_max":100,"#,
        r#""response_ns_min":2000100,"response_ns_mean":2000100.0,"response_ns_p50":2000100,"#,
        r#""response_ns_p90":2000100,"response_ns_p95":2000100,"response_ns_p99":2000100,"#,
        r#""response_ns_p999":2000100,"response_ns_max":2000100,"wait_ns_min":2000000,"#,
        r#""wait_ns_mean":2000000.0,"wait_ns_p50":2000000,"wait_ns_p90":2000000,"#,
        r#""wait_ns_p95":2000000,"wait_ns_p99":2000000,"wait_ns_p999":2000000,"#,
        r#""wait_ns_max":2000000,"due":null,"issued":5,"late":1,"late_busy":0,"read_late":0,"#,
        r#""backlog":null,"in_flight":1,"frontier":40}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn an_operation_is_late_beyond_a_millisecond_and_not_at_it() {
    let at = |wait_ns| sample(Kind::Read, Outcome::Ok, wait_ns, 100);
    let interval = closed(PhaseName::Measure, &[at(MS), at(MS + 1), at(5 * MS)]);
    assert_eq!(row(&interval, "TOTAL", "any").total.as_ref().expect("a total row").late, 2);
}

#[test]
fn an_operation_is_late_because_its_client_was_busy_for_more_than_a_millisecond_of_its_wait() {
    let busy =
        |busy_ns| Sample { free_ns: 10 + busy_ns, ..sample(Kind::Read, Outcome::Ok, 5 * MS, 1) };
    let interval = closed(PhaseName::Measure, &[busy(0), busy(MS), busy(MS + 1), busy(5 * MS)]);
    let total = row(&interval, "TOTAL", "any").total.clone().expect("a total row");
    assert_eq!((total.late, total.late_busy), (4, 2));
}

#[test]
fn only_recorded_series_are_listed_and_only_active_groups_have_a_total() {
    let mut phase = phase(PhaseName::Measure);
    phase.add(0, false, &batch(&[read(5)]));
    let interval = phase.close(0, false, START_NS + INTERVAL_NS, &[accounting(0)]);
    let names: Vec<_> = interval.rows.iter().map(|row| row.operation.as_str()).collect();
    assert_eq!(names, ["TOTAL", "READ"]);
}

#[test]
fn the_same_samples_give_the_same_records_on_1_and_on_8_workers() {
    let samples = durations(3, 8000);
    let mut one = phase(PhaseName::Measure);
    one.add(0, false, &batch(&samples));
    let mut eight = phase(PhaseName::Measure);
    for worker in 0..8 {
        let share: Vec<_> = samples.iter().skip(worker).step_by(8).copied().collect();
        eight.add(0, false, &batch(&share));
    }
    let rows =
        |phase: &mut PhaseAggregate| serde_json::to_string(&close(phase, 0).rows).expect("JSON");
    assert_eq!(rows(&mut one), rows(&mut eight));
    assert_eq!(one.totals(), eight.totals());
}

#[test]
fn totals_are_the_sum_of_the_intervals_and_split_at_the_window() {
    let mut phase = phase(PhaseName::Measure);
    let mut expected = Histogram::<u64>::new(3).expect("three digits");
    for interval in 0..4 {
        let samples = durations(u64::from(interval), 1000);
        for sample in &samples {
            expected.record(sample.completed_ns - sample.issued_ns).expect("it grows");
        }
        phase.add(interval, interval == 3, &batch(&samples));
        let end_ns = START_NS + (u64::from(interval) + 1) * INTERVAL_NS;
        phase.close(interval, interval == 3, end_ns, &[]);
    }
    let totals: Vec<TotalRecord> = phase.totals();
    assert_eq!(totals.len(), 1);
    assert_eq!((totals[0].count, totals[0].in_window, totals[0].rows), (4000, 3000, 4000));
    let decoded = decode(&totals[0].service.histogram);
    assert_eq!(decoded.iter_recorded().count(), expected.iter_recorded().count());
    for bucket in expected.iter_recorded() {
        let value = bucket.value_iterated_to();
        assert_eq!(decoded.count_at(value), bucket.count_at_value(), "at {value}");
    }
}

#[test]
fn intervals_may_be_open_side_by_side() {
    let mut phase = phase(PhaseName::Measure);
    phase.add(1, false, &batch(&[read(20)]));
    phase.add(0, false, &batch(&[read(10), read(10)]));
    assert_eq!(row(&close(&mut phase, 0), "TOTAL", "any").count, 2);
    assert_eq!(row(&close(&mut phase, 1), "TOTAL", "any").count, 1);
}

#[test]
fn the_drain_begins_where_the_window_ended() {
    let mut phase = phase(PhaseName::Measure);
    let window = phase.close(0, false, START_NS + 300, &[]);
    let drain = phase.close(0, true, START_NS + 900, &[]);
    assert_eq!((window.start_ns, window.end_ns), (START_NS, START_NS + 300));
    assert_eq!((drain.start_ns, drain.end_ns), (START_NS + 300, START_NS + 900));
}

#[test]
fn a_stop_rule_takes_successful_rows_and_the_largest_service_time() {
    let scan = Sample { rows: 50, ..sample(Kind::Scan, Outcome::Ok, 0, 10) };
    let write = Sample { rows: 0, ..sample(Kind::Update, Outcome::Ok, 0, 20) };
    let failed = sample(Kind::Update, Outcome::Timeout, 0, 900);
    let part = Sample { action: Action::Part(Kind::Read), ..read(2000) };
    let rate = closed(PhaseName::Measure, &[scan, write, failed, part]).rate_sample();
    assert_eq!((rate.rows, rate.largest_service_ns), (51, 900));
}

#[test]
fn a_recycled_batch_brings_nothing_of_its_past_along() {
    let mut recorder = Recorder::new(&names());
    recorder.record(0, &sample(Kind::Read, Outcome::Ok, 9 * MS, 100));
    recorder.record_lag(Some(100));
    let batch = recorder.take();
    assert!(!batch.is_empty());
    recorder.recycle(batch);
    recorder.take();
    assert!(recorder.take().is_empty());
}

#[test]
fn after_each_interval_every_file_ends_in_a_whole_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path()).expect("a new run");
    let mut phase = phase(PhaseName::Measure);
    for interval in 0..3 {
        phase.add(interval, false, &batch(&durations(9, 500)));
        writer.interval(&close(&mut phase, interval)).expect("there is room");
        let rows = lines(folder.path(), "intervals.jsonl");
        assert_eq!(rows.len() as u32, 3 * (interval + 1));
        rows.iter().for_each(|row| drop(serde_json::from_str::<Value>(row).expect("JSON")));
        assert_eq!(lines(folder.path(), "histograms.hlog").len() as u32, 5 + 3 * (interval + 1));
    }
    writer.finish().expect("the disk takes it");
}

#[test]
fn the_log_gives_every_histogram_back_under_its_tag() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path()).expect("a new run");
    let miss = sample(Kind::Delete, Outcome::Miss, 50, 70);
    let part = Sample { action: Action::Part(Kind::Read), ..read(30) };
    writer.interval(&closed(PhaseName::Measure, &[read(10), miss, part])).expect("room");
    writer.interval(&closed(PhaseName::WarmUp, &[read(10)])).expect("room");
    let text = fs::read(folder.path().join("histograms.hlog")).expect("the file is there");
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&text) {
        match entry.expect("a line of the format") {
            LogEntry::StartTime(at) | LogEntry::BaseTime(at) => {
                assert_eq!(at.as_millis(), 1_700_000_000_250);
            }
            LogEntry::Interval(line) => {
                assert_eq!(line.start_timestamp().as_nanos(), u128::from(START_NS));
                assert_eq!(line.duration().as_nanos(), u128::from(INTERVAL_NS));
                let histogram = decode(line.encoded_histogram());
                let tag = line.tag().expect("a tag").as_str().to_owned();
                found.push((tag, histogram.len(), histogram.max()));
            }
        }
    }
    let expected = [
        ("readers.READ-st", 10),
        ("readers.READ-rt", 10),
        ("readers.READ-wt", 0),
        ("readers.DELETE.miss-st", 70),
        ("readers.DELETE.miss-rt", 120),
        ("readers.DELETE.miss-wt", 50),
        ("readers.READ-MODIFY-WRITE.READ-st", 30),
        ("readers.READ-MODIFY-WRITE.READ-rt", 30),
        ("readers.READ-MODIFY-WRITE.READ-wt", 0),
        ("warm_up:readers.READ-st", 10),
        ("warm_up:readers.READ-rt", 10),
        ("warm_up:readers.READ-wt", 0),
    ];
    assert_eq!(found, expected.map(|(tag, max)| (tag.to_owned(), 1, max)));
}

#[test]
fn generator_lag_is_merged_over_workers_and_intervals_with_the_discarded_reads() {
    let mut phase = phase(PhaseName::Measure);
    phase.add(0, false, &lags(&[Some(3000), None]));
    phase.add(0, false, &lags(&[Some(5000)]));
    close(&mut phase, 0);
    assert_eq!(phase.generator_lag().expect("two reads").count, 2);
    phase.add(1, true, &lags(&[Some(7000), Some(7000)]));
    phase.close(1, true, START_NS + 2 * INTERVAL_NS, &[]);
    let found = phase.generator_lag().expect("four reads");
    let quantiles = &found.lag.quantiles;
    assert_eq!((found.count, found.discarded), (4, 1));
    assert_eq!((quantiles.min, quantiles.max), (3000, 7000));
    assert!((quantiles.mean - 5500.0).abs() < 1e-9);
    assert_eq!(decode(&found.lag.histogram).len(), 4);
    assert_eq!(phase.totals(), []);
}

#[test]
fn a_phase_without_a_sampled_read_has_no_generator_lag() {
    let mut phase = phase(PhaseName::Measure);
    phase.add(0, false, &batch(&[read(5)]));
    phase.add(0, false, &lags(&[None]));
    close(&mut phase, 0);
    assert_eq!(phase.generator_lag(), None);
}

#[test]
fn generator_lag_stands_in_the_log_once_an_interval_under_a_tag_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path()).expect("a new run");
    for name in [PhaseName::Load, PhaseName::Measure] {
        let mut phase = phase(name);
        phase.add(0, false, &lags(&[Some(3000), Some(9000)]));
        writer.interval(&close(&mut phase, 0)).expect("room");
        writer.interval(&close(&mut phase, 1)).expect("room");
    }
    let lines = lines(folder.path(), "histograms.hlog");
    let found: Vec<_> = lines[5..].iter().map(|line| line.split(',').collect::<Vec<_>>()).collect();
    let tags: Vec<_> = found.iter().map(|line| line[0]).collect();
    assert_eq!(tags, ["Tag=load:generator-lag", "Tag=generator-lag"]);
    assert_eq!((decode(found[1][4]).len(), found[1][3]), (2, "0.009000"));
}

#[test]
fn a_run_is_never_overwritten() {
    for file in ["intervals.jsonl", "histograms.hlog"] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(file), "kept\n").expect("room");
        let error = writer(folder.path()).err().expect("it is there");
        assert!(matches!(error, RecordError::Exists { .. }), "{error}");
        assert_eq!(lines(folder.path(), file), ["kept"]);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}

#[test]
fn events_are_appended_beside_those_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("events.jsonl"), "{\"at_ns\":0,\"kind\":\"fault\"}\n")
        .expect("room");
    let mut writer = writer(folder.path()).expect("a new run");
    let name = PhaseName::Load;
    let notice = Notice {
        code: "schedule_late",
        phase: Some(0),
        message: "m".into(),
        evidence: serde_json::json!({ "late": 3 }),
        advice: "a",
    };
    let kinds = [
        EventKind::PhaseStarted { phase: 0, name },
        EventKind::Notice(notice),
        EventKind::Interrupted,
    ];
    for kind in kinds {
        writer.event(&Event { at_ns: 7, kind }).expect("room");
    }
    let expected = [
        r#"{"at_ns":0,"kind":"fault"}"#,
        r#"{"at_ns":7,"kind":"phase_started","phase":0,"name":"load"}"#,
        concat!(
            r#"{"at_ns":7,"kind":"notice","code":"schedule_late","phase":0,"message":"m","#,
            r#""evidence":{"late":3},"advice":"a"}"#
        ),
        r#"{"at_ns":7,"kind":"interrupted"}"#,
    ];
    assert_eq!(lines(folder.path(), "events.jsonl"), expected);
}
