//! Generator lag: the delay of read stamps after the kernel's own timestamps.

use serde::{Deserialize, Serialize};

use crate::durations::{Distribution, Durations};
use crate::encoder::Encoder;
use crate::tally::{PackedTally, PackedValues, Tally, ValueReader};

/// Sampled reads; see [`crate::series::Series`] for `T`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag<T = Durations> {
    pub(crate) lag: T,
    discarded: u64,
}

pub(crate) type LagTally = Lag<Tally>;
pub(crate) type PackedLag = Lag<PackedTally>;

impl<T> Lag<T> {
    pub(crate) fn map<U>(&self, convert: impl FnOnce(&T) -> U) -> Lag<U> {
        Lag { lag: convert(&self.lag), discarded: self.discarded }
    }
}

impl LagTally {
    pub(crate) fn is_empty(&self) -> bool {
        self.lag.is_empty() && self.discarded == 0
    }

    #[inline]
    pub(crate) fn record(&mut self, lag_ns: Option<u64>) {
        match lag_ns {
            Some(lag_ns) => self.lag.record(lag_ns),
            None => self.discarded += 1,
        }
    }

    /// Packs and clears the reads.
    pub(crate) fn pack(&mut self, values: &mut PackedValues) -> PackedLag {
        let packed = self.map(|tally| tally.pack(values));
        self.clear();
        packed
    }

    pub(crate) fn add(&mut self, other: &PackedLag, values: &mut ValueReader<'_>) {
        self.lag.add_packed(&other.lag, values);
        self.discarded += other.discarded;
    }

    pub(crate) fn clear(&mut self) {
        self.lag.clear();
        self.discarded = 0;
    }
}

impl Lag {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.lag.merge(&other.lag);
        self.discarded += other.discarded;
    }

    /// `None` without sampled reads.
    pub(crate) fn record(&self, encoder: &mut Encoder) -> Option<LagRecord> {
        let (count, lag) = (self.lag.count, self.lag.distribution(encoder)?);
        Some(LagRecord { count, discarded: self.discarded, lag })
    }
}

/// From the arrival of bytes in the machine's kernel to the stamp of the read that took them, for a
/// sample of reads, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagRecord {
    /// Reads in the sample.
    pub count: u64,
    /// Excluded reads: by wall time their bytes arrived after the read or more than an hour before,
    /// because the clock was set.
    pub discarded: u64,
    /// The lag.
    #[serde(flatten)]
    pub lag: Distribution,
}
