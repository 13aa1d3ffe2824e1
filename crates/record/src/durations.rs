//! One distribution of durations: a histogram, and exactly its sum, least and largest value.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::encoder::{Encoder, SIGNIFICANT_DIGITS};
use crate::tally::{BucketCount, Tally, join, least_of};

/// Durations of one sort (service, response or wait time) of one series.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    /// The buckets that aren't empty, ascending: a histogram holds every bucket up to the largest.
    pub(crate) counts: Vec<BucketCount>,
    pub(crate) count: u64,
    sum_ns: u128,
    min_ns: u64,
    pub(crate) max_ns: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Durations {
    pub(crate) fn of(tally: &Tally) -> Self {
        let counts = tally.counts();
        let count = counts.iter().map(|(_, count)| count).sum();
        let (sum_ns, min_ns, max_ns) = (tally.sum_ns.into(), tally.min_ns, tally.max_ns);
        Self { counts, count, sum_ns, min_ns, max_ns }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.extend_from_slice(&other.counts);
        join(&mut self.counts);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The public histogram of the same values.
    fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are allowed");
        // The largest first, so that it grows once.
        for (bucket, count) in self.counts.iter().rev() {
            histogram
                .record_n(least_of((*bucket).into()), *count)
                .expect("a growing histogram takes every value up to an hour");
        }
        histogram
    }

    /// None when there is no value.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            min: self.min_ns,
            mean: self.sum_ns as f64 / self.count as f64,
            p50: self.at(0.5),
            p90: self.at(0.9),
            p95: self.at(0.95),
            p99: self.at(0.99),
            p999: self.at(0.999),
            max: self.max_ns,
        })
    }

    pub(crate) fn distribution(&self, encoder: &mut Encoder) -> Option<Distribution> {
        Some(Distribution {
            quantiles: self.quantiles()?,
            p9999: self.at(0.9999),
            stddev: self.histogram().stdev(),
            histogram: encoder.text(&self.counts).to_owned(),
        })
    }

    /// As the public histogram has it: the upper end of the bucket, which may lie beyond the
    /// largest value.
    fn at(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reaches_rank = |(_, count): &&BucketCount| {
            below += count;
            below >= rank
        };
        let bucket = self.counts.iter().find(reaches_rank).map_or(0, |(bucket, _)| *bucket);
        (least_of(usize::from(bucket) + 1) - 1).clamp(self.min_ns, self.max_ns)
    }
}

/// The durations in an interval's row, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The least, exactly.
    pub min: u64,
    /// The mean, exactly.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The largest, exactly.
    pub max: u64,
}

/// The durations in a total, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The values an interval's row has too.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Standard deviation, from the histogram.
    pub stddev: f64,
    /// The histogram, V2 with deflate, in base64.
    pub histogram: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_public_histogram() {
        for n in [1, 2, 3, 10, 99, 100, 1_000, 100_000] {
            let mut tally = Tally::default();
            for value in 0_u64..n {
                let noise = (value ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
                tally.record(noise >> (noise % 40));
            }
            let durations = Durations::of(&tally);
            let histogram = durations.histogram();
            assert_eq!(durations.count, histogram.len());
            for quantile in [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999] {
                let expected = histogram.value_at_quantile(quantile);
                let expected = expected.clamp(durations.min_ns, durations.max_ns);
                assert_eq!(durations.at(quantile), expected, "{n} values, {quantile}");
            }
        }
    }
}
