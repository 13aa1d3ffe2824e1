//! Reuse distances of keys, and so the hit ratio of an LRU cache of each size, in bounded memory
//! (SHARDS of a fixed size with its correction: Waldspurger, Park, Garthwaite and Ahmad, "Efficient
//! MRC Construction with SHARDS", FAST '15).
//!
//! A key is sampled if its hash is below a threshold. At first all keys are below the threshold, so
//! a trace with few keys is counted exactly. The threshold falls when there are too many keys.

use std::collections::{BinaryHeap, HashMap};

use kvmark_plan::split_mix;
use serde::Serialize;

use crate::fenwick::Marks;

/// Buckets of distances in each doubling.
const BUCKETS_AN_OCTAVE: f64 = 8.0;
/// Positions per sampled key; when they are used up, the keys are compacted.
const POSITIONS_A_KEY: usize = 4;
/// 2^64, of which a threshold is a share.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Follows the operations of a trace, in their order.
#[derive(Clone, Debug)]
pub struct Reuse {
    limit: usize,
    threshold: u64,
    keys: HashMap<u64, Seen>,
    /// The keys by their hashes, the largest first.
    largest: BinaryHeap<(u64, u64)>,
    marks: Marks,
    next: usize,
    references: u64,
    reads: u64,
    /// By bucket; counts of sampled keys, like the fields below.
    distances: Vec<f64>,
    first_reads: f64,
    unwritten_reads: f64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    position: usize,
    count: u64,
    written: bool,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reused {
    /// Operations on a key.
    pub references: u64,
    /// Of these the reads.
    pub reads: u64,
    /// The share of the keys that was sampled.
    pub sampled: f64,
    /// Different keys.
    pub keys: f64,
    /// The share of the reads that are the first operation on their key.
    pub first_reads: f64,
    /// The share of the reads whose key wasn't written before.
    pub unwritten_reads: f64,
    /// The share of the reads at each distance, nearest first.
    pub distances: Vec<Bucket>,
    /// Operations on each sampled key, in descending order.
    pub counts: Vec<u64>,
}

/// Reads whose key was used before within a cache of these sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// The smallest cache, in keys.
    pub low: f64,
    /// The smallest that is too large for the bucket.
    pub high: f64,
    /// The share of all reads.
    pub share: f64,
}

impl Reuse {
    /// Samples at most `limit` keys, and at least one.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self {
            limit,
            threshold: u64::MAX,
            keys: HashMap::new(),
            largest: BinaryHeap::new(),
            marks: Marks::new(POSITIONS_A_KEY * (limit + 1)),
            next: 0,
            references: 0,
            reads: 0,
            distances: Vec::new(),
            first_reads: 0.0,
            unwritten_reads: 0.0,
        }
    }

    /// Takes the next operation's key. An operation that isn't a read writes it.
    pub fn add(&mut self, key: u64, is_read: bool) {
        self.references += 1;
        self.reads += u64::from(is_read);
        let hash = split_mix(key);
        if hash > self.threshold {
            return;
        }
        if self.next == self.marks.positions() {
            self.move_together();
        }
        let position = self.next;
        self.next += 1;
        if let Some(seen) = self.keys.get_mut(&key) {
            let others = self.marks.behind(seen.position);
            self.marks.add(seen.position, -1);
            let unwritten = !seen.written;
            *seen = Seen { position, count: seen.count + 1, written: seen.written || !is_read };
            if is_read {
                self.count_distance(others);
                self.unwritten_reads += f64::from(u8::from(unwritten));
            }
        } else {
            self.keys.insert(key, Seen { position, count: 1, written: !is_read });
            self.largest.push((hash, key));
            if is_read {
                self.first_reads += 1.0;
                self.unwritten_reads += 1.0;
            }
        }
        self.marks.add(position, 1);
        if self.keys.len() > self.limit {
            self.look_at_fewer();
        }
    }

    /// The result up to now.
    #[must_use]
    pub fn result(&self) -> Reused {
        let sampled = self.sampled();
        let mut counted = self.distances.clone();
        // Reads of a very popular key are sampled all or not at all: the paper's correction adds
        // the difference to the shortest distances, where such keys return.
        let looked_at = self.first_reads + counted.iter().sum::<f64>();
        if let Some(nearest) = counted.first_mut() {
            *nearest = (*nearest + self.reads as f64 * sampled - looked_at).max(0.0);
        }
        let reads = (self.first_reads + counted.iter().sum::<f64>()).max(f64::MIN_POSITIVE);
        let bucket = |(index, &count): (usize, &f64)| Bucket {
            low: edge(index),
            high: edge(index + 1),
            share: count / reads,
        };
        let mut counts: Vec<u64> = self.keys.values().map(|seen| seen.count).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        Reused {
            references: self.references,
            reads: self.reads,
            sampled,
            keys: self.keys.len() as f64 / sampled,
            first_reads: self.first_reads / reads,
            unwritten_reads: self.unwritten_reads / reads,
            distances: counted.iter().enumerate().map(bucket).filter(|b| b.share > 0.0).collect(),
            counts,
        }
    }

    fn sampled(&self) -> f64 {
        (self.threshold as f64 + 1.0) / HASHES
    }

    /// Counts a read whose key was last used `others` other sampled keys ago.
    fn count_distance(&mut self, others: u32) {
        let keys = 1.0 + f64::from(others) / self.sampled();
        let bucket = (keys.log2() * BUCKETS_AN_OCTAVE) as usize;
        if bucket >= self.distances.len() {
            self.distances.resize(bucket + 1, 0.0);
        }
        self.distances[bucket] += 1.0;
    }

    /// Lowers the threshold to the largest hash and drops its key. Scales the counts accordingly.
    fn look_at_fewer(&mut self) {
        let before = self.sampled();
        let Some((largest, _)) = self.largest.peek().copied() else { return };
        self.threshold = largest.saturating_sub(1);
        while let Some(&(hash, key)) = self.largest.peek() {
            if hash <= self.threshold {
                break;
            }
            self.largest.pop();
            if let Some(seen) = self.keys.remove(&key) {
                self.marks.add(seen.position, -1);
            }
        }
        let fewer = self.sampled() / before;
        self.distances.iter_mut().for_each(|count| *count *= fewer);
        self.first_reads *= fewer;
        self.unwritten_reads *= fewer;
    }

    /// Moves the keys to the first positions, in the order of their use.
    fn move_together(&mut self) {
        let mut order: Vec<(usize, u64)> =
            self.keys.iter().map(|(&key, seen)| (seen.position, key)).collect();
        order.sort_unstable();
        self.marks.clear();
        for (position, &(_, key)) in order.iter().enumerate() {
            if let Some(seen) = self.keys.get_mut(&key) {
                seen.position = position;
            }
            self.marks.add(position, 1);
        }
        self.next = order.len();
    }
}

/// The smallest distance of a bucket.
fn edge(index: usize) -> f64 {
    (index as f64 / BUCKETS_AN_OCTAVE).exp2()
}
