//! How a worker counts durations.
//!
//! The buckets are those of an HdrHistogram with three significant digits from 1 ns up, kept as a
//! bare array: recording into the histogram itself costs twice as much, for bookkeeping that can be
//! done once per interval on another thread.

/// The longest duration that is told apart: one hour. Longer ones are counted there.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Values below 2^11 have a bucket each; above, each power of two has 2^10 buckets.
const FIRST_BITS: u32 = 11;
const HALF: usize = 1 << (FIRST_BITS - 1);

/// Buckets of a new tally, 32 KB: up to 131 µs, so that hundreds of recorders stay small.
const FIRST_BUCKETS: usize = 8 * HALF;

/// Durations of one sort (service, response or wait time) of one series.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// They stay at 2^32 - 1, which a bucket doesn't reach in an interval of seconds or minutes.
    counts: Vec<u32>,
    pub(crate) sum_ns: u128,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; FIRST_BUCKETS], sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.min_ns == u64::MAX
    }

    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        if value_ns < self.min_ns || value_ns > self.max_ns {
            self.widen(value_ns);
        }
        self.sum_ns += u128::from(value_ns);
        let count = &mut self.counts[bucket_of(value_ns.min(LONGEST_NS))];
        *count = count.saturating_add(1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        self.sum_ns = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
    }

    /// The least value of each bucket that isn't empty, and its count.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (least_of(bucket), u64::from(*count)))
    }

    /// Makes room for a value outside of those seen. Seldom: kept out of the recording path.
    #[cold]
    #[inline(never)]
    fn widen(&mut self, value_ns: u64) {
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        let buckets = (bucket_of(value_ns.min(LONGEST_NS)) / HALF + 1) * HALF;
        if self.counts.len() < buckets {
            self.counts.resize(buckets, 0);
        }
    }
}

#[inline]
fn bucket_of(value_ns: u64) -> usize {
    let first = (1 << FIRST_BITS) - 1;
    let shift = u64::BITS - FIRST_BITS - (value_ns | first).leading_zeros();
    shift as usize * HALF + (value_ns >> shift) as usize
}

fn least_of(bucket: usize) -> u64 {
    let shift = (bucket / HALF).saturating_sub(1);
    ((bucket - shift * HALF) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_join_without_gap_up_to_an_hour() {
        for bucket in 0..bucket_of(LONGEST_NS) {
            let end = least_of(bucket + 1);
            assert!(least_of(bucket) < end);
            assert_eq!((bucket_of(end - 1), bucket_of(end)), (bucket, bucket + 1));
        }
    }

    #[test]
    fn buckets_are_those_of_the_public_histogram() {
        let histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
        for bucket in 0..bucket_of(LONGEST_NS) {
            let least = least_of(bucket);
            assert_eq!(histogram.lowest_equivalent(least), least);
            assert_eq!(histogram.next_non_equivalent(least), least_of(bucket + 1));
        }
    }
}
