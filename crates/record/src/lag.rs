//! Generator lag: how late the stamps of reads are, by the kernel's own account.

use serde::{Deserialize, Serialize};

use crate::durations::{Distribution, Durations};
use crate::encoder::Encoder;
use crate::tally::{PackedTally, PackedValues, Tally, ValueReader};

/// Reads as a worker counts them.
#[derive(Debug)]
pub(crate) struct LagTally {
    lag: Tally,
    discarded: u64,
}

impl LagTally {
    pub(crate) fn new() -> Self {
        Self { lag: Tally::new(), discarded: 0 }
    }

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

    /// Hands the reads over, and forgets them.
    pub(crate) fn pack(&mut self, values: &mut PackedValues) -> PackedLag {
        let packed = PackedLag { lag: self.lag.pack(values), discarded: self.discarded };
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

/// Reads as a worker hands them over.
#[derive(Debug)]
pub(crate) struct PackedLag {
    lag: PackedTally,
    discarded: u64,
}

/// Reads of an interval or a phase.
#[derive(Clone, Debug)]
pub(crate) struct Lag {
    pub(crate) durations: Durations,
    discarded: u64,
}

impl Lag {
    pub(crate) fn new() -> Self {
        Self { durations: Durations::new(), discarded: 0 }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.durations.merge(&other.durations);
        self.discarded += other.discarded;
    }

    /// None when no read was sampled.
    pub(crate) fn record(&self, encoder: &mut Encoder) -> Option<LagRecord> {
        Some(LagRecord {
            count: self.durations.count(),
            discarded: self.discarded,
            lag: self.durations.distribution(encoder)?,
        })
    }
}

impl From<&LagTally> for Lag {
    fn from(tally: &LagTally) -> Self {
        Self { durations: (&tally.lag).into(), discarded: tally.discarded }
    }
}

/// From the arrival of bytes in the machine's kernel to the stamp of the read that took them, for a
/// sample of reads, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagRecord {
    /// Reads in the sample.
    pub count: u64,
    /// Reads that were left out: by wall time their bytes came after they were read, or more than
    /// an hour before, so that somebody had set the clock.
    pub discarded: u64,
    /// The lag.
    #[serde(flatten)]
    pub lag: Distribution,
}
