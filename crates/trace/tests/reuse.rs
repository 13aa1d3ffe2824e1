//! Reuse distances against a list that is searched, and against laws that are known.

use std::collections::HashSet;

use kvmark_plan::split_mix;
use kvmark_trace::{Reuse, Reused};
use proptest::prelude::*;

/// The share of reads that hit an LRU cache of this number of keys.
fn hits(found: &Reused, keys: f64) -> f64 {
    let within = found.distances.iter().filter(|bucket| bucket.high <= keys * 1.0001);
    within.map(|bucket| bucket.share).sum()
}

/// The same from an actual cache.
fn hits_of_a_cache(operations: &[(u64, bool)], size: usize) -> f64 {
    let (mut cache, mut reads, mut hits) = (Vec::new(), 0, 0);
    for &(key, is_read) in operations {
        let place = cache.iter().position(|&other| other == key);
        reads += u32::from(is_read);
        hits += u32::from(is_read && place.is_some());
        if let Some(place) = place {
            cache.remove(place);
        }
        cache.insert(0, key);
        cache.truncate(size);
    }
    f64::from(hits) / f64::from(reads.max(1))
}

fn reused(operations: &[(u64, bool)], limit: usize) -> Reused {
    let mut reuse = Reuse::new(limit);
    operations.iter().for_each(|&(key, is_read)| reuse.add(key, is_read));
    reuse.result()
}

proptest! {
    #[test]
    fn few_keys_are_counted_exactly(
        operations in prop::collection::vec((0_u64..40, any::<bool>()), 1..2000),
    ) {
        let found = reused(&operations, 64);
        prop_assert_eq!(found.sampled, 1.0);
        let keys: HashSet<u64> = operations.iter().map(|&(key, _)| key).collect();
        prop_assert_eq!(found.keys, keys.len() as f64);
        prop_assert_eq!(found.counts.iter().sum::<u64>(), operations.len() as u64);
        // Powers of two are edges of buckets.
        for size in [1_usize, 2, 4, 8, 16, 32] {
            let exact = hits_of_a_cache(&operations, size - 1);
            prop_assert!((hits(&found, size as f64) - exact).abs() < 1e-9);
        }
    }

    #[test]
    fn no_more_keys_are_kept_than_asked_for(
        operations in prop::collection::vec((any::<u64>(), any::<bool>()), 1..500),
        limit in 1_usize..20,
    ) {
        prop_assert!(reused(&operations, limit).counts.len() <= limit);
    }
}

#[test]
fn a_sample_tells_the_hit_ratio_of_a_uniform_law() {
    const KEYS: u64 = 100_000;
    let operations: Vec<(u64, bool)> =
        (0..2_000_000).map(|number| (split_mix(number) % KEYS, true)).collect();
    let found = reused(&operations, 4096);
    assert!(found.sampled < 0.05);
    assert!((found.keys / KEYS as f64 - 1.0).abs() < 0.05, "{}", found.keys);
    for share in [0.125, 0.25, 0.5] {
        let hit = hits(&found, share * KEYS as f64);
        // An edge of a bucket is at most a twelfth away.
        assert!((hit - share).abs() < 0.09 * share + 0.02, "{share}: {hit}");
    }
}

#[test]
fn a_loop_over_more_keys_than_a_cache_has_never_hits_it() {
    let operations: Vec<(u64, bool)> = (0..10_000).map(|number| (number % 100, true)).collect();
    let found = reused(&operations, 1000);
    assert!(hits(&found, 90.0) < 1e-12);
    assert!((hits(&found, 128.0) - 0.99).abs() < 1e-9);
    assert!((found.first_reads - 0.01).abs() < 1e-9);
}

#[test]
fn reads_of_unwritten_keys_are_counted() {
    let operations = [(1, true), (1, false), (1, true), (2, false), (2, true), (3, true)];
    let found = reused(&operations, 10);
    assert_eq!((found.references, found.reads), (6, 4));
    assert!((found.unwritten_reads - 0.5).abs() < 1e-12);
    assert!((found.first_reads - 0.5).abs() < 1e-12);
}

#[test]
fn moving_together_changes_nothing() {
    // Five keys have 24 positions: they are used up every 19 operations.
    let operations: Vec<(u64, bool)> =
        (0..5000).map(|number| (split_mix(number) % 5, true)).collect();
    let found = reused(&operations, 5);
    assert_eq!(found.sampled, 1.0);
    assert!((hits(&found, 8.0) + found.first_reads - 1.0).abs() < 1e-9);
    assert_eq!(found.first_reads, 5.0 / 5000.0);
}
