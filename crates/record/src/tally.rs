//! A worker's tally of durations.
//!
//! The buckets are those of an HdrHistogram with three significant digits from 1 ns up. Recording
//! into the histogram itself costs twice as much, for bookkeeping that can be done once per
//! interval on another thread.
//!
//! Memory grows with the values: a worker has three tallies for each operation, outcome and group,
//! and most have few values. A value is first listed, in two bytes. Where enough listed values are
//! close to each other, a window opens: an array with two bytes per bucket. A full count moves to a
//! list of large counts.

use std::slice::Iter;

/// The longest recorded duration: one hour. Longer ones count as one hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Values below 2^11 have a bucket each; above, each power of two has 2^10 buckets.
pub(crate) const FIRST_BITS: u32 = 11;
const HALF: usize = 1 << (FIRST_BITS - 1);

/// Buckets by which the window grows.
const CHUNK: usize = 256;
const CHUNKS: usize = LAST / CHUNK + 1;
/// The bucket of the longest duration.
const LAST: usize = bucket_of(LONGEST_NS);

/// Initial capacity of a list.
const FIRST_LISTED: usize = 32;
/// Most values of a bucket that are listed; more take less memory as a large count.
const LISTED_MAX: u64 = 4;

/// Durations of one sort (service, response or wait time) of one series.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Counts of the buckets from `first` on.
    window: Vec<u16>,
    /// A multiple of [`CHUNK`].
    first: usize,
    /// Buckets of the values outside of the window, in the order of their recording.
    listed: Vec<u16>,
    /// Counts beyond those above, ascending by bucket.
    large: Vec<BucketCount>,
    /// Of the values of an interval, which 64 bits hold: together at most five million hours.
    pub(crate) sum_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    /// From the least to the largest: one comparison checks whether a value is between them.
    span_ns: u64,
}

/// A bucket, and how many values it has.
pub(crate) type BucketCount = (u16, u64);

impl Default for Tally {
    fn default() -> Self {
        let (window, listed, large) = (Vec::new(), Vec::new(), Vec::new());
        Self { window, first: 0, listed, large, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, span_ns: 0 }
    }
}

impl Tally {
    pub(crate) fn is_empty(&self) -> bool {
        self.min_ns == u64::MAX
    }

    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        if value_ns.wrapping_sub(self.min_ns) > self.span_ns {
            self.stretch(value_ns, value_ns);
        }
        self.sum_ns = self.sum_ns.wrapping_add(value_ns);
        let bucket = bucket_of(value_ns);
        if let Some(count) = self.window.get_mut(bucket.wrapping_sub(self.first)) {
            let (more, is_full) = count.overflowing_add(1);
            *count = more;
            if is_full {
                self.add_large(bucket, 1 << u16::BITS);
            }
        } else {
            self.record_outside(bucket);
        }
    }

    /// Records a number of values that are equal to a recorded one.
    pub(crate) fn repeat(&mut self, value_ns: u64, count: u64) {
        self.sum_ns = self.sum_ns.wrapping_add(value_ns.wrapping_mul(count));
        self.add(bucket_of(value_ns).min(LAST), count);
    }

    /// Appends the values to `values` and keeps them.
    pub(crate) fn pack(&self, values: &mut PackedValues) -> PackedTally {
        let before = values.counted.len();
        values.listed.extend_from_slice(&self.listed);
        values.counted.extend(self.in_window());
        values.large.extend_from_slice(&self.large);
        PackedTally {
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            listed: self.listed.len(),
            counted: values.counted.len() - before,
            large: self.large.len(),
        }
    }

    /// Adds the values of another tally, the next ones of the reader, and returns their number.
    pub(crate) fn add_packed(&mut self, tally: &PackedTally, values: &mut ValueReader<'_>) -> u64 {
        let mut added = 0;
        let mut add = |bucket: u16, count: u64| {
            self.add(usize::from(bucket), count);
            added += count;
        };
        let ValueReader { listed, counted, large } = values;
        listed.take(tally.listed).for_each(|bucket| add(*bucket, 1));
        counted.take(tally.counted).for_each(|(bucket, count)| add(*bucket, (*count).into()));
        large.take(tally.large).for_each(|(bucket, count)| add(*bucket, *count));
        self.sum_ns += tally.sum_ns;
        self.stretch(tally.min_ns, tally.max_ns);
        added
    }

    /// Adds a number of values of 0.
    pub(crate) fn add_zeros(&mut self, count: u64) {
        if count > 0 {
            self.add(0, count);
            self.stretch(0, 0);
        }
    }

    /// Clears the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.window.fill(0);
        self.listed.clear();
        self.large.clear();
        (self.sum_ns, self.min_ns, self.max_ns, self.span_ns) = (0, u64::MAX, 0, 0);
    }

    /// The buckets that aren't empty, ascending.
    pub(crate) fn counts(&self) -> Vec<BucketCount> {
        let listed = self.listed.iter().map(|bucket| (*bucket, 1));
        let counted = self.in_window().map(|(bucket, count)| (bucket, u64::from(count)));
        let mut counts: Vec<BucketCount> = counted.chain(listed).collect();
        counts.extend_from_slice(&self.large);
        join(&mut counts);
        counts
    }

    fn in_window(&self) -> impl Iterator<Item = (u16, u16)> {
        let counted = self.window.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(place, count)| ((self.first + place) as u16, *count))
    }

    /// Rare: not inlined into the recording path.
    #[cold]
    #[inline(never)]
    fn stretch(&mut self, min_ns: u64, max_ns: u64) {
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
        self.span_ns = self.max_ns.saturating_sub(self.min_ns);
    }

    /// A value whose bucket is outside of the window.
    #[inline(never)]
    fn record_outside(&mut self, bucket: usize) {
        let bucket = bucket.min(LAST);
        if bucket == LAST || self.listed.len() == self.listed.capacity() {
            self.record_seldom(bucket);
        } else {
            self.listed.push(bucket as u16);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_seldom(&mut self, bucket: usize) {
        if self.listed.len() == self.listed.capacity() {
            self.make_room();
        }
        // The list may have become part of the window, and the last bucket has longer values, too.
        if (self.first..self.end()).contains(&bucket) {
            self.add(bucket, 1);
        } else {
            self.listed.push(bucket as u16);
        }
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if let Some(counted) = self.window.get_mut(bucket.wrapping_sub(self.first)) {
            let sum = u64::from(*counted) + count;
            *counted = u16::try_from(sum).unwrap_or(0);
            if sum > u16::MAX.into() {
                self.add_large(bucket, sum);
            }
        } else if count > LISTED_MAX {
            self.add_large(bucket, count);
        } else {
            (0..count).for_each(|_| self.record_outside(bucket));
        }
    }

    #[cold]
    #[inline(never)]
    fn add_large(&mut self, bucket: usize, count: u64) {
        match self.large.binary_search_by_key(&bucket, |(large, _)| usize::from(*large)) {
            Ok(place) => self.large[place].1 += count,
            Err(place) => self.large.insert(place, (bucket as u16, count)),
        }
    }

    /// Widens the window if that takes less memory than listing. Otherwise extends the list.
    fn make_room(&mut self) {
        let mut listed = [0; CHUNKS];
        self.listed.iter().for_each(|bucket| listed[usize::from(*bucket) / CHUNK] += 1);
        let (mut from, mut until) = (self.first / CHUNK, self.end().div_ceil(CHUNK));
        if self.window.is_empty() {
            let fullest = (0..CHUNKS).max_by_key(|chunk| listed[*chunk]).unwrap_or(0);
            (from, until) = (fullest, fullest);
        }
        let above = worthwhile(listed[until..].iter());
        let below = worthwhile(listed[..from].iter().rev());
        if above + below > 0 {
            self.open(from - below, until + above);
        } else {
            self.listed.reserve_exact(self.listed.len().max(FIRST_LISTED));
        }
    }

    /// Opens the window over a range of chunks, and moves listed values there.
    fn open(&mut self, from: usize, until: usize) {
        // Values longer than the longest are outside of any window.
        let mut window = vec![0; (until * CHUNK).min(LAST + 1) - from * CHUNK];
        if !self.window.is_empty() {
            let place = self.first - from * CHUNK;
            window[place..place + self.window.len()].copy_from_slice(&self.window);
        }
        self.window = window;
        self.first = from * CHUNK;
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|bucket| {
            let is_inside = (self.first..self.end()).contains(&usize::from(*bucket));
            if is_inside {
                self.add(usize::from(*bucket), 1);
            }
            !is_inside
        });
        listed.shrink_to((2 * listed.len()).max(FIRST_LISTED));
        self.listed = listed;
    }

    /// The bucket after the window.
    fn end(&self) -> usize {
        self.first + self.window.len()
    }
}

/// A worker's packed tally, with the number of its packed values.
#[derive(Debug)]
pub(crate) struct PackedTally {
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    listed: usize,
    counted: usize,
    large: usize,
}

/// The packed values of tallies.
#[derive(Debug, Default)]
pub(crate) struct PackedValues {
    listed: Vec<u16>,
    counted: Vec<(u16, u16)>,
    large: Vec<BucketCount>,
}

impl PackedValues {
    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.listed.clear();
        self.counted.clear();
        self.large.clear();
    }

    pub(crate) fn reader(&self) -> ValueReader<'_> {
        let (listed, counted, large) = (self.listed.iter(), self.counted.iter(), self.large.iter());
        ValueReader { listed, counted, large }
    }
}

/// Reads packed values.
#[derive(Clone, Debug)]
pub(crate) struct ValueReader<'a> {
    listed: Iter<'a, u16>,
    counted: Iter<'a, (u16, u16)>,
    large: Iter<'a, BucketCount>,
}

/// Number of chunks next to a window that save the most memory as part of it. A bucket in the
/// window takes as much memory as a listed value.
fn worthwhile<'a>(listed: impl Iterator<Item = &'a usize>) -> usize {
    let (mut most, mut saved) = ((0, 0), 0);
    for (chunk, values) in listed.enumerate() {
        saved += *values as i64 - CHUNK as i64;
        most = most.max((saved, chunk + 1));
    }
    most.1
}

/// Sorts counts and merges those of one bucket.
pub(crate) fn join(counts: &mut Vec<BucketCount>) {
    // The stable sort merges what is in order already.
    counts.sort_by_key(|(bucket, _)| *bucket);
    counts.dedup_by(|(bucket, count), (kept, sum)| {
        let is_same = bucket == kept;
        *sum += if is_same { *count } else { 0 };
        is_same
    });
    counts.shrink_to_fit();
}

#[inline]
const fn bucket_of(value_ns: u64) -> usize {
    let first = (1 << FIRST_BITS) - 1;
    let shift = u64::BITS - FIRST_BITS - (value_ns | first).leading_zeros();
    shift as usize * HALF + (value_ns >> shift) as usize
}

/// The least value of a bucket.
pub(crate) fn least_of(bucket: usize) -> u64 {
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

    /// Arbitrary values, most of them near 100 us.
    fn values(seed: u64, n: u64) -> Vec<u64> {
        let noise = |n: u64| (n ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let value = |n| if n % 50 == 0 { 1 << (noise(n) % 45) } else { 90_000 + noise(n) % 20_000 };
        (0..n).map(value).collect()
    }

    fn tally(values: &[u64]) -> Tally {
        let mut tally = Tally::default();
        values.iter().for_each(|value| tally.record(*value));
        tally
    }

    /// As counted one by one.
    fn expected(values: &[u64]) -> Vec<BucketCount> {
        let bucket = |value: &u64| (bucket_of((*value).min(LONGEST_NS)) as u16, 1);
        let mut counts = values.iter().map(bucket).collect();
        join(&mut counts);
        counts
    }

    #[test]
    fn every_value_is_counted_listed_or_in_the_window_or_as_a_large_count() {
        for n in [0, 1, 31, 32, 33, 500, 20_000, 1_000_000] {
            let values = values(n, n);
            assert_eq!(tally(&values).counts(), expected(&values), "{n} values");
        }
    }

    #[test]
    fn merged_tallies_count_the_values_of_both() {
        let (few, many) = (values(1, 400), values(2, 300_000));
        for (mine, theirs) in [(&few, &many), (&many, &few), (&many, &many)] {
            let mut merged = tally(mine);
            let mut values = PackedValues::default();
            let packed = tally(theirs).pack(&mut values);
            merged.add_packed(&packed, &mut values.reader());
            assert_eq!(merged.counts(), expected(&[&mine[..], theirs].concat()));
        }
    }

    #[test]
    fn a_cleared_tally_counts_from_zero() {
        let mut cleared = tally(&values(3, 300_000));
        cleared.clear();
        assert!(cleared.is_empty() && cleared.counts().is_empty());
        let again = values(4, 1_000);
        again.iter().for_each(|value| cleared.record(*value));
        assert_eq!(cleared.counts(), expected(&again));
    }

    fn bytes(tally: &Tally) -> usize {
        let large = tally.large.capacity() * size_of::<BucketCount>();
        2 * (tally.window.capacity() + tally.listed.capacity()) + large
    }

    #[test]
    fn a_tally_takes_memory_only_for_its_values() {
        assert_eq!(bytes(&Tally::default()), 0);
        assert!(bytes(&tally(&values(5, 10))) <= 2 * FIRST_LISTED);
        // Values far apart open no window over all that lies between.
        let outliers: Vec<u64> =
            (0..10_000).map(|n| if n % 100 == 0 { 1 << 40 } else { 80 }).collect();
        assert!(bytes(&tally(&outliers)) < 2_000, "{}", bytes(&tally(&outliers)));
        // However many values there are: at most two bytes for each bucket, and the large counts.
        let all: Vec<u64> = (0..1_000_000).map(|n| least_of(n % 33_000)).collect();
        assert!(bytes(&tally(&all)) < 80_000, "{}", bytes(&tally(&all)));
    }
}
