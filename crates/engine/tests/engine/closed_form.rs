//! The records of a simulated system match the results known in closed form.

use crate::support::{assert_close, closed, constant, plan, poisson, record, sim, total};
use kvmark_plan::Kind;

#[test]
fn response_times_of_an_mm1_queue_meet_the_closed_form() {
    // Arrivals at 7,000 a second, service of 100 us: response is exponential with rate 3,000 a
    // second.
    let mut plan = plan(poisson(7_000.0), 100_000);
    plan.phases[0].groups[0].operations = Some(6_000_000);
    plan.interval_ns = 60_000_000_000;
    let record = record(&plan, sim(&[("mean_us", "100"), ("clock", "virtual"), ("seed", "11")]));
    let reads = total(&record, Kind::Read);
    assert_eq!(reads.count, 6_000_000);
    let quantile_ns = |q: f64| -(1.0 - q).ln() / 3_000.0 * 1e9;
    assert_close("p50", reads.response.quantiles.p50 as f64, quantile_ns(0.5), 0.03);
    assert_close("p99", reads.response.quantiles.p99 as f64, quantile_ns(0.99), 0.03);
    assert_close("p99.9", reads.response.quantiles.p999 as f64, quantile_ns(0.999), 0.03);
    assert_close("mean", reads.response.quantiles.mean, 1e9 / 3_000.0, 0.03);
}

/// Response times around a stall of `stall_s` in a run of `run_s`: the arrival `x` after its begin
/// waits for the rest of the stall and for those before it, `stall - x (1 - load)`.
fn stalled_quantile_ns(q: f64, stall_s: f64, run_s: f64, load: f64) -> f64 {
    let share = stall_s / (1.0 - load) / run_s;
    stall_s * (1.0 - (1.0 - q) / share) * 1e9
}

#[test]
fn a_stall_adds_the_response_time_of_the_closed_form_to_all_operations() {
    // 10,000 a second for 100 s, 20 us of service (a load of 0.2), stopped from 30 s to 31 s.
    let mut plan = plan(constant(10_000.0), 100_000);
    plan.phases[0].duration_ns = Some(100_000_000_000);
    let options =
        [("service", "constant"), ("mean_us", "20"), ("clock", "virtual"), ("stall", "30+1")];
    let record = record(&plan, sim(&options));
    let reads = total(&record, Kind::Read);
    assert_eq!(reads.count, 1_000_000);
    assert_close("p50", reads.response.quantiles.p50 as f64, 20_000.0, 0.03);
    for (name, found, q) in [
        ("p99", reads.response.quantiles.p99, 0.99),
        ("p99.9", reads.response.quantiles.p999, 0.999),
    ] {
        assert_close(name, found as f64, stalled_quantile_ns(q, 1.0, 100.0, 0.2), 0.03);
    }
    assert_close("max", reads.response.quantiles.max as f64, 1e9, 0.001);
}

#[test]
fn a_closed_client_sees_a_stall_once_where_arrivals_see_it_a_thousand_times() {
    let mut plan = plan(closed(), 1);
    plan.phases[0].duration_ns = Some(10_000_000_000);
    let options =
        [("service", "constant"), ("mean_us", "1000"), ("clock", "virtual"), ("stall", "5+1")];
    let record = record(&plan, sim(&options));
    let reads = total(&record, Kind::Read);
    assert_eq!(reads.count, 9_000);
    assert_close("p99.9", reads.response.quantiles.p999 as f64, 1e6, 0.001);
    assert_close("max", reads.response.quantiles.max as f64, 1.001e9, 0.001);
}

#[test]
fn on_the_real_clock_too_a_stall_hides_in_no_operation() {
    // 2,000 a second for 4 s, stopped from 2 s to 2.5 s of the run.
    let mut plan = plan(constant(2_000.0), 4_000);
    plan.phases[0].groups[0].operations = Some(8_000);
    let options = [("service", "constant"), ("mean_us", "50"), ("stall", "2+0.5")];
    let record = record(&plan, sim(&options));
    let response = &total(&record, Kind::Read).response.quantiles;
    assert_eq!(total(&record, Kind::Read).count, 8_000);
    // It covers the complete stall, which the checks below need.
    let begun_ns = record.phases[0].start_ns;
    assert!(begun_ns < 2_000_000_000, "the phase began {begun_ns} ns late");
    // A busy machine only adds to response times: they are at least those of a stall without a
    // queue.
    for (name, found, q) in [("p99", response.p99, 0.99), ("p99.9", response.p999, 0.999)] {
        let least_ns = 0.995 * stalled_quantile_ns(q, 0.5, 4.0, 0.0);
        assert!(found as f64 >= least_ns, "{name}: found {found}, at least {least_ns}");
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let mut plan = plan(poisson(5_000.0), 1_000);
    plan.phases[0].duration_ns = Some(2_000_000_000);
    let options = [("clock", "virtual"), ("error_share", "0.01"), ("miss_share", "0.02")];
    let text = |record: kvmark_record::RunRecord| serde_json::to_string(&record.totals).unwrap();
    let first = text(record(&plan, sim(&options)));
    assert_eq!(first, text(record(&plan, sim(&options))));
}
