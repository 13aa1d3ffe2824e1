//! One distribution of durations: a histogram, and exactly its sum, least and largest value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::tally::Tally;

const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations of one sort (service, response or wait time) of one series.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Durations {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are allowed");
        Self { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("a growing histogram takes any other");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// None when there is no value.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        if self.count() == 0 {
            return None;
        }
        Some(Quantiles {
            min: self.min_ns,
            mean: self.sum_ns as f64 / self.count() as f64,
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
            stddev: self.histogram.stdev(),
            histogram: encoder.text(&self.histogram).to_owned(),
        })
    }

    /// A histogram answers with the upper end of a bucket, which may lie beyond the largest value.
    fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns)
    }
}

impl From<&Tally> for Durations {
    fn from(tally: &Tally) -> Self {
        let (sum_ns, min_ns, max_ns) = (tally.sum_ns, tally.min_ns, tally.max_ns);
        let mut durations = Self { sum_ns, min_ns, max_ns, ..Self::new() };
        for (value_ns, count) in tally.buckets() {
            durations
                .histogram
                .record_n(value_ns, count)
                .expect("a growing histogram takes every value up to an hour");
        }
        durations
    }
}

/// What an interval's row says of its durations, in nanoseconds.
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

/// What a total says of its durations, in nanoseconds.
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

/// Histograms as text: V2 with deflate, in base64. Keeps its buffers.
pub(crate) struct Encoder {
    serializer: V2DeflateSerializer,
    bytes: Vec<u8>,
    text: String,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { serializer: V2DeflateSerializer::new(), bytes: Vec::new(), text: String::new() }
    }

    pub(crate) fn text(&mut self, histogram: &Histogram<u64>) -> &str {
        self.bytes.clear();
        self.text.clear();
        self.serializer
            .serialize(histogram, &mut self.bytes)
            .expect("writing to memory succeeds and counts stay below 2^63");
        STANDARD.encode_string(&self.bytes, &mut self.text);
        &self.text
    }
}
