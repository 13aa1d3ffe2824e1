//! The rules that end a phase when the mean rate is precise enough.

use kvmark_plan::{GOLDEN, Until, UntilRule, split_mix};
use kvmark_record::{RateSample, StopRule};

const NS_PER_S: u64 = 1_000_000_000;

fn until(rule: UntilRule, bound: f64, min: u32, max: Option<u32>) -> StopRule {
    StopRule::new(Until { rule, bound, min_intervals: min, max_intervals: max })
}

fn one_second(rows: u64, largest_service_ns: u64) -> RateSample {
    RateSample { start_ns: 7, end_ns: 7 + NS_PER_S, rows, succeeded: rows, largest_service_ns }
}

/// SplitMix64 as a uniform number in (0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(GOLDEN);
    (split_mix(*state) >> 11) as f64 / (1u64 << 53) as f64
}

/// The sum of twelve uniform numbers less six.
fn normal(state: &mut u64) -> f64 {
    (0..12).map(|_| uniform(state)).sum::<f64>() - 6.0
}

/// A rate of 10,000 with a standard deviation of 1000, each value `memory` of the one before.
fn autoregressive(seed: u64, n: usize, memory: f64) -> Vec<u64> {
    let mut state = seed;
    let mut deviation = normal(&mut state);
    let innovation = (1.0 - memory * memory).sqrt();
    let step = |_| {
        deviation = memory * deviation + innovation * normal(&mut state);
        (10_000.0 + 1000.0 * deviation) as u64
    };
    (0..n).map(step).collect()
}

fn stderr_of(rates: &[u64], rule: UntilRule) -> f64 {
    let mut stop = until(rule, 0.02, 30, None);
    rates.iter().for_each(|rate| stop.push(&one_second(*rate, 0)));
    stop.relative_stderr().expect("enough intervals")
}

/// The mean estimate of the corrected rule over seeds.
fn corrected(memory: f64) -> f64 {
    let of = |seed| stderr_of(&autoregressive(seed, 400, memory), UntilRule::Precision);
    (0..100).map(of).sum::<f64>() / 100.0
}

fn published(text: &str) -> Vec<(u64, u64, f64)> {
    let parse = |line: &str| {
        let mut cells = line.split(',').map(|cell| cell.parse::<f64>().expect("a number"));
        let mut next = || cells.next().expect("three columns");
        (next() as u64, (next() * 1e6) as u64, next())
    };
    text.lines().skip(1).map(parse).collect()
}

#[test]
fn the_published_logs_give_their_stderr_column_back() {
    let logs = [
        include_str!("data/cassandra-stress-direct.csv"),
        include_str!("data/cassandra-stress-shotover-debug-4-threads.csv"),
        include_str!("data/cassandra-stress-shotover-release-16-threads.csv"),
    ];
    for log in logs {
        let mut lines = published(log);
        // The last line is a partial interval whose length isn't printed.
        lines.pop();
        let last = lines.len() - 1;
        let mut stop = until(UntilRule::CassandraStress, 0.02, 30, Some(200));
        for (index, (rows, largest_service_ns, printed)) in lines.into_iter().enumerate() {
            stop.push(&one_second(rows, largest_service_ns));
            let stderr = stop.relative_stderr().expect("one interval is enough");
            // Rates are printed as whole numbers and times to 0.1 ms, which shows in the first few.
            let tolerance = if index < 14 { 2.2e-5 } else { 0.6e-5 };
            assert!((stderr - printed).abs() < tolerance, "line {index}: {stderr} {printed}");
            assert_eq!(stop.satisfied(), index == last, "line {index}");
        }
    }
}

#[test]
fn independent_rates_are_worth_about_their_number() {
    let naive = 1000.0 / 10_000.0 / 400f64.sqrt();
    let ratio = corrected(0.0) / naive;
    assert!((1.05..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn autocorrelated_rates_are_worth_less_than_their_number() {
    // The variance of an AR(1) series' mean is (1 + memory) / (1 - memory) times as large.
    let naive = 1000.0 / 10_000.0 / 400f64.sqrt();
    let ratio = corrected(0.8) / (naive * 3.0);
    assert!((0.95..1.3).contains(&ratio), "{ratio}");
    let rates = autoregressive(1, 400, 0.8);
    let as_independent = stderr_of(&rates, UntilRule::CassandraStress);
    assert!(stderr_of(&rates, UntilRule::Precision) > 2.0 * as_independent);
}

#[test]
fn a_precision_is_looked_at_when_the_number_of_intervals_has_doubled() {
    let mut stop = until(UntilRule::Precision, 0.05, 30, None);
    // It varies for 30 intervals and is constant afterwards.
    let rate = |n: u64| if n <= 30 { 10_000 * (1 + n % 2) } else { 15_000 };
    let ended = (1..=300).find(|n| {
        stop.push(&one_second(rate(*n) + n % 7, 0));
        stop.satisfied()
    });
    assert!(ended.is_some_and(|n| [30, 60, 120, 240].contains(&n)), "{ended:?}");
}

#[test]
fn a_few_slow_waves_never_end_a_measurement() {
    // Such a strong autocorrelation leaves two contrasts.
    let mut stop = until(UntilRule::Precision, 0.5, 30, None);
    for rate in autoregressive(3, 120, 0.99) {
        stop.push(&one_second(rate, 0));
        assert!(!stop.satisfied());
    }
}

#[test]
fn a_rule_waits_for_its_least_and_ends_at_its_largest_number_of_intervals() {
    for rule in [UntilRule::CassandraStress, UntilRule::Precision] {
        let mut steady = until(rule, 0.02, 30, None);
        let mut wild = until(rule, 0.000_001, 30, Some(40));
        for n in 1..=50 {
            steady.push(&one_second(1000, 0));
            wild.push(&one_second(1000 * (1 + n % 3), 0));
            assert_eq!(steady.satisfied(), n >= 30, "{rule:?} after {n}");
            assert_eq!(wild.satisfied(), n >= 40, "{rule:?} after {n}");
        }
    }
}

#[test]
fn nothing_is_known_before_the_first_interval_nor_from_one_without_length() {
    for rule in [UntilRule::CassandraStress, UntilRule::Precision] {
        let mut stop = until(rule, 0.02, 1, Some(1));
        stop.push(&RateSample {
            start_ns: 5,
            end_ns: 5,
            rows: 3,
            succeeded: 3,
            largest_service_ns: 0,
        });
        assert_eq!(stop.relative_stderr(), None);
        assert!(!stop.satisfied());
    }
}

#[test]
fn a_system_that_does_nothing_never_counts_as_known() {
    for rule in [UntilRule::CassandraStress, UntilRule::Precision] {
        let mut stop = until(rule, 0.02, 1, None);
        (0..40).for_each(|_| stop.push(&one_second(0, 0)));
        assert!(!stop.satisfied());
    }
}

/// The interval after which a warm-up may end; `None` if it uses all of them.
fn warm_after(rates: impl IntoIterator<Item = u64>) -> Option<usize> {
    let mut stop = until(UntilRule::Stationary, 0.05, 20, None);
    rates.into_iter().position(|rate| {
        stop.push(&one_second(rate, 0));
        stop.satisfied()
    })
}

#[test]
fn a_warm_up_goes_on_while_the_rate_rises_and_ends_soon_after() {
    // As a cold server: towards 10,000 with a time constant of 40 intervals, and noise of 3 %.
    for seed in 1..=20 {
        let mut state = seed;
        let rate = |second: i32| {
            let share = 1.0 - (-f64::from(second) / 40.0).exp();
            (10_000.0 * share * (1.0 + 0.03 * normal(&mut state))) as u64
        };
        let ended = warm_after((1..=600).map(rate)).expect("it becomes stationary");
        assert!((60..400).contains(&ended), "seed {seed}: after {ended}");
    }
    assert_eq!(warm_after((1..=300).map(|second| 100 * second)), None);
}

#[test]
fn a_warm_up_of_a_warm_server_takes_the_least_number_of_intervals() {
    let early = |seed| warm_after(autoregressive(seed, 60, 0.0)).expect("it is stationary") < 30;
    assert!((1..=50).filter(|seed| early(*seed)).count() >= 45);
    assert_eq!(warm_after(vec![5000; 30]), Some(19));
    assert_eq!(warm_after(vec![0; 300]), None);
}
