//! When operations are due.

use kvmark_plan::{Arrival, RatePoint, Share};
use kvmark_workload::{Arrivals, Due, NumberPartition, seed_of};
use proptest::prelude::*;

const NS_PER_S: u64 = 1_000_000_000;

fn points(rates: &[(u64, f64)]) -> Vec<RatePoint> {
    rates.iter().map(|&(at_ns, rate)| RatePoint { at_ns, rate }).collect()
}

fn constant(rates: &[(u64, f64)]) -> Arrival {
    Arrival::Constant { rates: points(rates) }
}

fn poisson(rates: &[(u64, f64)]) -> Arrival {
    Arrival::Poisson { rates: points(rates) }
}

fn arrivals(arrival: &Arrival, seed: u64, part: NumberPartition) -> Arrivals {
    Arrivals::new(arrival, seed, part).expect("an open model")
}

fn whole(arrival: &Arrival) -> Arrivals {
    arrivals(arrival, 1, NumberPartition::WHOLE)
}

fn instants(arrival: &Arrival, n: usize) -> Vec<u64> {
    whole(arrival).take(n).map(|due| due.at_ns).collect()
}

/// A ramp up, a pause, a step up, a ramp down.
fn mountain() -> Vec<(u64, f64)> {
    let s = NS_PER_S;
    vec![(0, 0.0), (s, 900.0), (2 * s, 0.0), (3 * s, 0.0), (3 * s + 1, 500.0), (5 * s, 20.0)]
}

#[test]
fn the_closed_model_has_no_arrivals() {
    assert!(
        Arrivals::new(&Arrival::Closed { think_time_ns: 0 }, 1, NumberPartition::WHOLE).is_none()
    );
}

#[test]
fn constant_arrivals_are_spaced_evenly_from_0_on() {
    assert_eq!(instants(&constant(&[(0, 4.0)]), 4), [0, 250_000_000, 500_000_000, 750_000_000]);
    let thirds = instants(&constant(&[(0, 3.0)]), 5);
    assert_eq!(thirds, [0, 333_333_333, 666_666_666, NS_PER_S, 1_333_333_333]);
}

#[test]
fn constant_arrivals_do_not_drift_in_10_to_the_12_of_them() {
    let far = 1_000_000_000_000;
    let every_far = NumberPartition { first: far, step: far, cycle: 4 * far };
    for rate in [100_000, 300_000] {
        let at_ns = |number: u64| number * 10_000 / (rate / 100_000);
        let arrival = constant(&[(0, rate as f64)]);
        let mut distant = arrivals(&arrival, 1, every_far);
        assert_eq!(distant.next(), Some(Due { number: far, at_ns: at_ns(far) }));
        assert_eq!(distant.next(), Some(Due { number: 2 * far, at_ns: at_ns(2 * far) }));
        assert_eq!(whole(&arrival).due_by(at_ns(far)), far + 1);
    }
}

#[test]
fn adding_steps_equals_division() {
    let rate = 299_999.7;
    let nano_rate = 299_999_700_000_000u128;
    for due in whole(&constant(&[(0, rate)])).take(1_000_000) {
        let exact = u128::from(due.number) * 1_000_000_000_000_000_000 / nano_rate;
        assert_eq!(u128::from(due.at_ns), exact);
    }
}

#[test]
fn points_of_equal_rate_are_a_constant_rate() {
    let stepped = constant(&[(0, 700.0), (NS_PER_S / 3, 700.0), (NS_PER_S, 700.0)]);
    assert_eq!(instants(&stepped, 5000), instants(&constant(&[(0, 700.0)]), 5000));
}

#[test]
fn a_ramp_integrates_to_its_number_of_arrivals() {
    // A triangle of 1000/s over 4 s, then 10/s.
    let ramp = constant(&[(0, 0.0), (4 * NS_PER_S, 1000.0), (4 * NS_PER_S + 1, 10.0)]);
    let by = |at_ns| whole(&ramp).due_by(at_ns);
    assert_eq!(by(4 * NS_PER_S - 1), 2000);
    assert_eq!(by(2 * NS_PER_S - 1), 500);
    assert_eq!(by(5 * NS_PER_S + 2), 2010 + 1);
}

#[test]
fn a_ramp_follows_the_square_root_of_the_number() {
    let ramp = constant(&[(0, 0.0), (10 * NS_PER_S, 1000.0)]);
    for due in whole(&ramp).take(5000) {
        let expected = (due.number as f64 / 50.0).sqrt() * 1e9;
        assert!((due.at_ns as f64 - expected).abs() <= 2.0, "{due:?} {expected}");
    }
}

#[test]
fn nothing_is_due_while_the_rate_is_0() {
    let in_seconds = [(0, 0.0), (1, 0.0), (2, 5000.0), (3, 0.0), (5, 0.0), (6, 100.0)];
    let rates = in_seconds.map(|(at_s, rate)| (at_s * NS_PER_S, rate));
    for arrival in [constant(&rates), poisson(&rates)] {
        for due in whole(&arrival).take(6000) {
            let idle = |from: u64, to: u64| due.at_ns > from && due.at_ns < to;
            assert!(!idle(0, NS_PER_S) && !idle(3 * NS_PER_S, 5 * NS_PER_S), "{due:?}");
            assert!(due.at_ns > 0, "{due:?}");
        }
    }
}

#[test]
fn poisson_gaps_follow_the_exponential_law() {
    // Kolmogorov-Smirnov: one sample in a thousand exceeds 1.95.
    let n = 100_000;
    let times = instants(&poisson(&[(0, 1000.0)]), n);
    let before = std::iter::once(&0).chain(&times);
    let mut gaps: Vec<f64> =
        times.iter().zip(before).map(|(at, before)| (at - before) as f64 * 1e-6).collect();
    gaps.sort_by(f64::total_cmp);
    let law = |gap: f64| 1.0 - (-gap).exp();
    let off = |(rank, gap): (usize, &f64)| (law(*gap) - (rank as f64 + 0.5) / n as f64).abs();
    let largest = gaps.iter().enumerate().map(off).fold(0.0, f64::max);
    assert!(largest * (n as f64).sqrt() < 1.95, "{largest}");
}

#[test]
fn poisson_counts_vary_as_much_as_their_mean_and_are_independent() {
    // Windows of parts of a block, of a block, and of several.
    let windows = 4000;
    for per_window in [3.0, 50.0, 1024.0, 1500.0] {
        let mut counts = vec![0.0; windows];
        let arrivals = whole(&poisson(&[(0, per_window)]));
        for due in arrivals.take_while(|due| due.at_ns < windows as u64 * NS_PER_S) {
            counts[(due.at_ns / NS_PER_S) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / windows as f64;
        let square = |off: f64| off * off;
        let variance =
            counts.iter().map(|count| square(count - mean)).sum::<f64>() / (windows - 1) as f64;
        let products = counts.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
        let correlation = products.sum::<f64>() / variance / windows as f64;
        // Four standard errors of each.
        let error = 4.0 / (windows as f64).sqrt();
        assert!((mean - per_window).abs() < error * per_window.sqrt(), "{mean}");
        assert!((variance / mean - 1.0).abs() < error * 2_f64.sqrt(), "{per_window} {variance}");
        assert!(correlation.abs() < error, "{per_window} {correlation}");
    }
}

#[test]
fn a_poisson_ramp_has_the_number_its_rate_says() {
    let ramp = poisson(&[(0, 0.0), (10 * NS_PER_S, 20_000.0)]);
    let due = whole(&ramp).due_by(10 * NS_PER_S) as f64;
    assert!((due - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{due}");
}

#[test]
fn the_parts_of_any_number_of_workers_have_the_arrivals_of_one() {
    for arrival in [constant(&[(0, 777.7)]), constant(&mountain()), poisson(&mountain())] {
        let one: Vec<Due> = whole(&arrival).take(8064).collect();
        for workers in [2, 7, 64] {
            let part = |first| {
                let part = NumberPartition { first, step: workers, cycle: workers };
                arrivals(&arrival, 1, part).take(8064 / workers as usize)
            };
            let mut all: Vec<Due> = (0..workers).flat_map(part).collect();
            all.sort();
            assert_eq!(one, all);
        }
        let (mut some, mut distant) = (whole(&arrival), whole(&arrival));
        assert!(one.iter().step_by(5).all(|due| some.instant(due.number) == due.at_ns));
        assert_eq!(distant.instant(8063), one[8063].at_ns);
    }
}

#[test]
fn three_clients_on_two_workers_have_a_third_each() {
    let part = |first| NumberPartition { first, step: 2, cycle: 3 };
    for arrival in [constant(&[(0, 777.7)]), constant(&mountain()), poisson(&mountain())] {
        let numbers = |first| arrivals(&arrival, 1, part(first)).map(|due| due.number);
        assert_eq!(numbers(0).take(6).collect::<Vec<_>>(), [0, 2, 3, 5, 6, 8]);
        assert_eq!(numbers(1).take(3).collect::<Vec<_>>(), [1, 4, 7]);
    }
    assert_eq!((0..6).map(|count| part(0).of_first(count)).collect::<Vec<_>>(), [0, 1, 1, 2, 3, 3]);
}

#[test]
fn a_share_without_a_client_has_no_arrivals() {
    let empty = NumberPartition { first: 3, step: 2, cycle: 3 };
    assert!(Arrivals::new(&constant(&[(0, 1.0)]), 1, empty).is_none());
    assert_eq!(empty.of_first(1000), 0);
}

#[test]
fn the_same_seed_gives_the_same_arrivals_and_another_gives_others() {
    let of = |seed| -> Vec<Due> {
        arrivals(&poisson(&[(0, 100.0)]), seed, NumberPartition::WHOLE).take(1000).collect()
    };
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}

#[test]
fn phases_and_groups_have_seeds_of_their_own() {
    let mut seeds: Vec<u64> = (0..8)
        .flat_map(|seed| (0..8).flat_map(move |phase| (0..8).map(move |g| seed_of(seed, phase, g))))
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 512);
}

#[test]
fn a_rate_too_small_to_matter_is_due_never_and_does_not_overflow() {
    let mut never = whole(&constant(&[(0, 1e-12)]));
    assert_eq!(never.next().map(|due| due.at_ns), Some(0));
    never.nth(100);
    assert_eq!(never.peek().at_ns, u64::MAX);
}

fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..5000.0]
}

prop_compose! {
    fn any_rates()(
        first in any_rate(),
        steps in prop::collection::vec((1..3 * NS_PER_S, any_rate()), 0..6),
        last in 1.0..5000.0,
    ) -> Vec<(u64, f64)> {
        let mut rates = vec![(0, first)];
        let mut at_ns = 0;
        for (step_ns, rate) in steps {
            at_ns += step_ns;
            rates.push((at_ns, rate));
        }
        rates.push((at_ns + NS_PER_S, last));
        rates
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn instants_never_fall(rates in any_rates(), seed: u64, index in 0u64..3) {
        for arrival in [constant(&rates), poisson(&rates)] {
            let part = NumberPartition { first: index, step: 3, cycle: 5 };
            let times: Vec<u64> =
                arrivals(&arrival, seed, part).take(2000).map(|due| due.at_ns).collect();
            prop_assert!(times.is_sorted());
        }
    }

    #[test]
    fn the_count_due_by_a_time_matches_the_arrivals_until_then(
        rates in any_rates(),
        seed: u64,
        index in 0u64..3,
        taken in 0usize..500,
        at_ns in 0..10 * NS_PER_S,
    ) {
        let last = [(0, rates[rates.len() - 1].1)];
        for arrival in [constant(&rates), constant(&last), poisson(&rates)] {
            let part = NumberPartition { first: index, step: 3, cycle: 5 };
            let start = arrivals(&arrival, seed, part);
            let until = start.clone().take_while(|due| due.at_ns <= at_ns).count() as u64;
            prop_assert_eq!(part.of_first(start.clone().due_by(at_ns)), until);
            let mut on_the_way = start;
            on_the_way.by_ref().take(taken).for_each(drop);
            prop_assert_eq!(part.of_first(on_the_way.due_by(at_ns)), until);
            let next = on_the_way.peek();
            prop_assert!(part.of_first(on_the_way.due_by(next.at_ns)) > taken as u64);
            prop_assert_eq!(part.of_first(on_the_way.due_by(at_ns)), until);
        }
    }
}

#[test]
fn shares_of_a_count_add_up_to_it() {
    for all in [0, 1, 7, 1000, 1001] {
        let share = |index| NumberPartition::of_share(Share { index, of: 3 });
        assert_eq!((0..3).map(|index| share(index).of_first(all)).sum::<u64>(), all);
    }
}
