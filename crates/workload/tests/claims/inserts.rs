//! The insert sequence: ordinals, frontier, failures.

use std::sync::Barrier;
use std::thread;

use kvmark_plan::Share;
use kvmark_workload::InsertSequence;

use crate::plans::ALONE;

const THREADS: u64 = 8;
const PER_THREAD: u64 = 20_000;

#[test]
fn ordinals_follow_the_start_in_steps_of_the_shares() {
    let inserts = InsertSequence::new(100, Share { index: 2, of: 5 });
    assert_eq!(
        [inserts.take().unwrap(), inserts.take().unwrap(), inserts.take().unwrap()],
        [102, 107, 112]
    );
}

#[test]
fn the_frontier_waits_for_the_oldest_open_insert() {
    let inserts = InsertSequence::new(10, ALONE);
    let [first, second, third] =
        [inserts.take().unwrap(), inserts.take().unwrap(), inserts.take().unwrap()];
    assert_eq!(inserts.frontier(), 10);
    inserts.acknowledge(third);
    inserts.acknowledge(second);
    assert_eq!(inserts.frontier(), 10);
    assert!(inserts.is_available(9) && !inserts.is_available(second));
    inserts.acknowledge(first);
    assert_eq!(inserts.frontier(), 13);
    assert!((0..13).all(|ordinal| inserts.is_available(ordinal)));
    assert!(!inserts.is_available(13));
}

#[test]
fn a_failed_insert_lets_the_frontier_pass_and_is_never_available() {
    let inserts = InsertSequence::new(10, ALONE);
    let [first, second, third] =
        [inserts.take().unwrap(), inserts.take().unwrap(), inserts.take().unwrap()];
    inserts.fail(second);
    inserts.acknowledge(first);
    assert_eq!(inserts.frontier(), 12);
    inserts.acknowledge(third);
    let available: Vec<u64> = (9..15).filter(|ordinal| inserts.is_available(*ordinal)).collect();
    assert_eq!(available, [9, 10, 12]);
}

#[test]
fn ordinals_of_other_shares_are_available_only_when_they_were_there_before() {
    let inserts = InsertSequence::new(10, Share { index: 1, of: 3 });
    assert_eq!(inserts.frontier(), 10);
    for _ in 0..3 {
        inserts.acknowledge(inserts.take().unwrap());
    }
    assert_eq!(inserts.frontier(), 18);
    let available: Vec<u64> = (8..25).filter(|ordinal| inserts.is_available(*ordinal)).collect();
    assert_eq!(available, [8, 9, 11, 14, 17]);
}

#[test]
fn an_insert_that_is_open_for_longer_than_two_million_others_is_not_overtaken() {
    let inserts = InsertSequence::new(0, ALONE);
    let slow = inserts.take().unwrap();
    for _ in 0..2_200_000 {
        inserts.acknowledge(inserts.take().unwrap());
    }
    assert_eq!(inserts.frontier(), 0);
    inserts.acknowledge(slow);
    assert_eq!(inserts.frontier(), 2_200_001);
    inserts.acknowledge(inserts.take().unwrap());
    assert_eq!(inserts.frontier(), 2_200_002);
}

/// Whether an ordinal's insert fails, in the tests below.
fn fails(ordinal: u64) -> bool {
    ordinal.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60 == 0
}

/// Takes and ends ordinals a few at a time, newest first; returns the ordinals.
fn insert_some(inserts: &InsertSequence, count: u64) -> Vec<u64> {
    let mut taken = Vec::new();
    for _ in 0..count / 4 {
        let mut open: Vec<u64> = (0..4).map(|_| inserts.take().unwrap()).collect();
        taken.extend_from_slice(&open);
        while let Some(ordinal) = open.pop() {
            if fails(ordinal) { inserts.fail(ordinal) } else { inserts.acknowledge(ordinal) }
        }
    }
    taken
}

#[test]
fn eight_threads_lose_no_ordinal_and_take_none_twice() {
    let inserts = InsertSequence::new(1_000, ALONE);
    let together = Barrier::new(THREADS as usize);
    let mut taken: Vec<u64> = thread::scope(|scope| {
        let work = || {
            together.wait();
            insert_some(&inserts, PER_THREAD)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    taken.sort_unstable();
    let end = 1_000 + THREADS * PER_THREAD;
    assert!(taken.into_iter().eq(1_000..end));
    assert_eq!(inserts.frontier(), end);
    for ordinal in 1_000..end {
        assert_eq!(inserts.is_available(ordinal), !fails(ordinal));
    }
}

#[test]
fn the_frontier_reaches_the_end_when_threads_end_inserts_beyond_the_window() {
    let inserts = InsertSequence::new(0, ALONE);
    let slow = inserts.take().unwrap();
    let ordinals: Vec<u64> = (0..1_300_000).map(|_| inserts.take().unwrap()).collect();
    thread::scope(|scope| {
        for part in ordinals.chunks(ordinals.len() / 4) {
            let inserts = &inserts;
            // From the end, so that most ends are beyond the window, and the oldest insert ends
            // among them.
            scope
                .spawn(move || part.iter().rev().for_each(|ordinal| inserts.acknowledge(*ordinal)));
        }
        inserts.acknowledge(slow);
    });
    assert_eq!(inserts.frontier(), 1_300_001);
}

#[test]
fn all_inserts_below_a_frontier_have_ended_at_every_instant() {
    let inserts = InsertSequence::new(0, ALONE);
    let total = 4 * PER_THREAD;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| insert_some(&inserts, PER_THREAD));
        }
        let mut last = 0;
        while last < total {
            let frontier = inserts.frontier();
            assert!(frontier >= last, "the frontier went back from {last} to {frontier}");
            for ordinal in last..frontier {
                assert_eq!(inserts.is_available(ordinal), !fails(ordinal));
            }
            last = frontier;
            thread::yield_now();
        }
    });
}
