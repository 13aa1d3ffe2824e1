//! Each law of choice against its closed form.

use kvmark_plan::{Distribution, KeyChoice, Kind};
use kvmark_workload::InsertSequence;

use crate::plans::{ALONE, choosing, inserts_after, mix, ordinals, stream};
use crate::statistics::{assert_follows, assert_uniform, count};

const DRAWS: u64 = 200_000;

/// Mass of each of `count` zipfian ranks, most popular first.
fn zipfian_masses(count: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-theta)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn counted(count_of_keys: u64, distribution: Distribution) -> Vec<u64> {
    let drawn = ordinals(&choosing(count_of_keys, distribution), DRAWS);
    count(count_of_keys as usize, drawn.map(|ordinal| ordinal as usize))
}

#[test]
fn uniform_chooses_each_key_equally_often() {
    for keys in [2, 3, 1_000] {
        let masses = (0..keys).map(|_| 1.0 / keys as f64);
        assert_follows(&counted(keys, Distribution::Uniform), masses, "uniform");
    }
}

#[test]
fn uniform_reaches_evenly_over_nearly_all_64_bit_ordinals() {
    let keys = u64::MAX - 1;
    let drawn = ordinals(&choosing(keys, Distribution::Uniform), DRAWS);
    assert_uniform(drawn.map(|ordinal| ordinal as f64 / keys as f64).collect(), "uniform");
}

#[test]
fn exact_zipfian_has_the_mass_of_its_formula_for_any_theta() {
    for theta in [0.01, 0.5, 0.99, 1.0, 1.000_001, 1.5, 3.0] {
        for keys in [2, 10, 1_000] {
            let law = Distribution::Zipfian { theta, scrambled: false };
            let what = format!("theta {theta} over {keys} keys");
            let masses = zipfian_masses(keys, theta);
            assert_follows(&counted(keys, law), masses.into_iter(), &what);
        }
    }
}

#[test]
fn exact_zipfian_chooses_the_only_key() {
    for theta in [0.5, 1.0, 50.0] {
        let law = Distribution::Zipfian { theta, scrambled: true };
        assert!(ordinals(&choosing(1, law), 1_000).all(|ordinal| ordinal == 0));
    }
}

#[test]
fn a_scrambled_zipfian_gives_each_rank_a_key_of_its_own() {
    let law = Distribution::Zipfian { theta: 0.99, scrambled: true };
    let mut counts = counted(1_000, law);
    assert!(counts[0] < DRAWS / 100, "the most popular key is still in front");
    // The counts identify the ranks of popular keys. The other keys are too similar and are
    // compared as one bin.
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let masses = zipfian_masses(1_000, 0.99);
    for (count, mass) in counts.iter().zip(&masses).take(8) {
        let expected = mass * DRAWS as f64;
        assert!((*count as f64 - expected).abs() < 4.0 * expected.sqrt(), "{count} of {expected}");
    }
    assert!(*counts.last().unwrap() > 0, "a key without a rank");
}

/// The sum of `rank^-theta` over `1 ..= count`: the first terms, then Euler and Maclaurin.
fn zeta(count: f64, theta: f64) -> f64 {
    let head = 10_000.0_f64.min(count);
    let sum: f64 = (1..=head as u64).map(|rank| (rank as f64).powf(-theta)).sum();
    let integral = |x: f64| {
        if theta == 1.0 { x.ln() } else { x.powf(1.0 - theta) / (1.0 - theta) }
    };
    let ends = (count.powf(-theta) - head.powf(-theta)) / 2.0;
    sum + integral(count) - integral(head) + ends
}

#[test]
fn exact_zipfian_over_2_to_the_63_keys_has_the_mass_of_its_formula() {
    let keys = (1_u64 << 63) - 1;
    for theta in [0.5, 0.99, 1.0, 1.5] {
        let law = Distribution::Zipfian { theta, scrambled: false };
        let sum = zeta(keys as f64, theta);
        // Bins: the first 20 ranks each, then up to each power of two.
        let first_of =
            |bin: u32| if bin < 20 { f64::from(bin) } else { 2.0_f64.powi(bin as i32 - 15) };
        let bin_of = |ordinal: u64| match ordinal {
            0..20 => ordinal as usize,
            20..32 => 19,
            _ => 15 + ordinal.ilog2() as usize,
        };
        let below = |ranks: f64| if ranks == 0.0 { 0.0 } else { zeta(ranks, theta) / sum };
        let edges: Vec<f64> = (0..=19).map(|bin| below(first_of(bin))).collect();
        let tail: Vec<f64> = (5..=63).map(|power| below(2.0_f64.powi(power))).collect();
        let edges: Vec<f64> = edges.into_iter().chain(tail).collect();
        let masses = edges.windows(2).map(|edge| edge[1] - edge[0]);
        let drawn = ordinals(&choosing(keys, law), DRAWS).map(bin_of);
        assert_follows(&count(edges.len() - 1, drawn), masses, &format!("theta {theta}"));
    }
}

#[test]
fn zipfian_ordinals_far_out_have_random_low_bits() {
    let law = Distribution::Zipfian { theta: 0.01, scrambled: false };
    let drawn = ordinals(&choosing(1 << 62, law), DRAWS);
    let counts = count(256, drawn.map(|ordinal| (ordinal % 256) as usize));
    assert_follows(&counts, (0..256).map(|_| 1.0 / 256.0), "low bits");
}

/// FNV-1a as YCSB forms it, written for the test.
fn slow_hash(number: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut rest = number;
    for _ in 0..8 {
        hash ^= rest % 256;
        hash = hash.wrapping_mul(1_099_511_628_211);
        rest /= 256;
    }
    (hash as i64).unsigned_abs()
}

/// Mass of each key under YCSB's scrambled zipfian: Gray's item masses, the first million hashed
/// one by one, the rest spread evenly.
fn ycsb_masses(keys: u64) -> Vec<f64> {
    const ITEMS: f64 = 1e10 + 1.0;
    const ZETA: f64 = 26.469_028_201_783_02;
    const HASHED: u64 = 1_000_000;
    let theta = 0.99_f64;
    let zeta_of_two = 1.0 + 0.5_f64.powf(theta);
    let eta = (1.0 - (2.0 / ITEMS).powf(1.0 - theta)) / (1.0 - zeta_of_two / ZETA);
    // Gray's inversion gives an item below `item` where the uniform number is below this.
    let uniform_of = |item: f64| 1.0 + ((item / ITEMS).powf(1.0 - theta) - 1.0) / eta;
    let second = zeta_of_two / ZETA;
    let mut masses = vec![0.0; keys as usize];
    let mut add = |item: u64, mass: f64| masses[(slow_hash(item) % keys) as usize] += mass;
    add(0, 1.0 / ZETA);
    add(1, second - 1.0 / ZETA);
    let mut reached = second;
    for item in 0..HASHED {
        let next = uniform_of((item + 1) as f64).max(reached);
        add(item, next - reached);
        reached = next;
    }
    masses.iter().map(|mass| mass + (1.0 - reached) / keys as f64).collect()
}

#[test]
fn ycsb_zipfian_has_the_mass_of_ten_billion_items_folded_into_the_count() {
    for keys in [2, 101, 1_001] {
        let masses = ycsb_masses(keys);
        assert_follows(&counted(keys, Distribution::YcsbZipfian), masses.into_iter(), "ycsb");
    }
}

#[test]
fn ycsb_zipfian_is_not_the_zipfian_law_over_the_count() {
    let mut counts = counted(1_000, Distribution::YcsbZipfian);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let share = counts[0] as f64 / DRAWS as f64;
    let exact = zipfian_masses(1_000, 0.99)[0];
    assert!((share - 1.0 / 26.469).abs() < 0.003, "{share} of the draws");
    assert!(exact > 3.0 * share);
}

#[test]
fn latest_is_zipfian_in_the_distance_from_the_newest_record() {
    for keys in [1, 2, 3, 700, 1_024] {
        let mut counts = counted(keys, Distribution::Latest);
        counts.reverse();
        let masses = zipfian_masses(keys, 0.99).into_iter();
        if keys > 1 {
            assert_follows(&counts, masses, &format!("{keys} records"));
        }
    }
}

#[test]
fn latest_follows_the_frontier_beyond_the_loaded_records() {
    let mut plan = choosing(10, Distribution::Latest);
    plan.groups[0].mix = mix(&[(Kind::Read, 1.0)]);
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    for ordinal in 10..500 {
        assert_eq!(inserts.take().unwrap(), ordinal);
        inserts.acknowledge(ordinal);
    }
    let drawn = (0..DRAWS).map(|number| 499 - stream.draw(number, &inserts).ordinal as usize);
    assert_follows(&count(500, drawn), zipfian_masses(500, 0.99).into_iter(), "latest");
}

#[test]
fn hotspot_sends_its_share_of_the_draws_to_its_share_of_the_keys() {
    let hotspot = |data_fraction, operation_fraction| {
        counted(1_000, Distribution::Hotspot { data_fraction, operation_fraction })
    };
    let masses = (0..1_000).map(|rank| if rank < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 });
    assert_follows(&hotspot(0.2, 0.8), masses, "hotspot");
    for (data_fraction, operation_fraction) in [(0.0, 0.8), (1.0, 0.2)] {
        let uniform = (0..1_000).map(|_| 1.0 / 1_000.0);
        assert_follows(&hotspot(data_fraction, operation_fraction), uniform, "one part");
    }
}

#[test]
fn exponential_falls_off_from_the_newest_record() {
    let (percentile, fraction) = (95.0, 0.857_142_857_1);
    let mut counts = counted(1_000, Distribution::Exponential { percentile, fraction });
    counts.reverse();
    let gamma = -(1.0_f64 - percentile / 100.0).ln() / (1_000.0 * fraction);
    // Draws before the first record are repeated.
    let within = 1.0 - (-gamma * 1_000.0).exp();
    let masses = (0..1_000).map(|distance| {
        let begin = -gamma * f64::from(distance);
        (begin.exp() - (begin - gamma).exp()) / within
    });
    assert_follows(&counts, masses, "exponential");
    let newest: u64 = counts[..857].iter().sum();
    let share = newest as f64 / DRAWS as f64 * within;
    assert!((share - 0.95).abs() < 0.005, "{share} in the newest fraction");
}

#[test]
fn sequential_takes_number_n_to_ordinal_n_modulo_the_count() {
    let drawn = ordinals(&choosing(7, Distribution::Sequential), 100);
    assert!(drawn.eq((0..100).map(|number| number % 7)));
}

#[test]
fn every_law_keeps_to_its_range() {
    let laws = [
        Distribution::Uniform,
        Distribution::YcsbZipfian,
        Distribution::Zipfian { theta: 0.99, scrambled: false },
        Distribution::Zipfian { theta: 0.99, scrambled: true },
        Distribution::Latest,
        Distribution::Hotspot { data_fraction: 0.2, operation_fraction: 0.8 },
        Distribution::Sequential,
        Distribution::Exponential { percentile: 95.0, fraction: 0.857 },
    ];
    for distribution in laws {
        for keys in [1, 2, 3, 64, 1_000] {
            let mut plan = choosing(keys, distribution.clone());
            plan.dataset.start = 5_000;
            plan.groups[0].keys.start = 5_000;
            let mut drawn = ordinals(&plan, 2_000);
            assert!(drawn.all(|ordinal| (5_000..5_000 + keys).contains(&ordinal)));
        }
    }
}

#[test]
fn unavailable_records_are_drawn_again_and_the_others_keep_their_law() {
    // 300 keys in the range, of which 100 are loaded and 100 more were inserted.
    let weights = |distribution: Distribution| -> Vec<f64> {
        let masses = match distribution {
            Distribution::YcsbZipfian => ycsb_masses(300),
            Distribution::Zipfian { theta, .. } => zipfian_masses(300, theta),
            _ => vec![1.0 / 300.0; 300],
        };
        let there: f64 = masses[..200].iter().sum();
        masses[..200].iter().map(|mass| mass / there).collect()
    };
    let laws = [
        Distribution::Uniform,
        Distribution::YcsbZipfian,
        Distribution::Zipfian { theta: 0.99, scrambled: false },
        Distribution::Sequential,
    ];
    for distribution in laws {
        let mut plan = choosing(100, distribution.clone());
        plan.groups[0].keys =
            KeyChoice { start: 0, count: 300, distribution: distribution.clone() };
        let (stream, inserts) = (stream(&plan), inserts_after(&plan));
        (0..100).for_each(|_| inserts.acknowledge(inserts.take().unwrap()));
        let drawn = (0..DRAWS).map(|number| stream.draw(number, &inserts).ordinal as usize);
        let counts = count(200, drawn);
        if distribution == Distribution::Sequential {
            assert!(counts.iter().all(|count| *count > 0));
        } else {
            assert_follows(&counts, weights(distribution).into_iter(), "redrawn");
        }
    }
}

#[test]
fn a_choice_among_nothing_is_the_first_ordinal() {
    for distribution in [Distribution::Uniform, Distribution::YcsbZipfian, Distribution::Latest] {
        let stream = stream(&choosing(1_000, distribution));
        let inserts = InsertSequence::new(0, ALONE);
        assert!((0..100).all(|number| stream.draw(number, &inserts).ordinal == 0));
    }
}

#[test]
fn a_law_with_little_available_mass_still_chooses_available_records() {
    let law = Distribution::Zipfian { theta: 0.01, scrambled: true };
    let mut plan = choosing(3, law);
    plan.groups[0].keys.count = 1 << 40;
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let drawn = (0..300).map(|number| stream.draw(number, &inserts).ordinal as usize);
    assert!(count(3, drawn).iter().all(|count| *count > 50));
}
