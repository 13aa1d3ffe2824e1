//! A worker's recorder: no locks, and no allocation once its series exist.

use crate::batch::Batch;
use crate::names::{Names, SeriesKey};
use crate::series::Sample;
use crate::tallies::Tallies;

/// One worker's recorder.
#[derive(Debug)]
pub struct Recorder {
    current: Tallies,
    spare: Vec<Batch>,
}

impl Recorder {
    /// A recorder for a plan with groups and statements of these names.
    #[must_use]
    pub fn new(names: &Names) -> Self {
        Self { current: Tallies::new(names), spare: Vec::new() }
    }

    /// Counts one finished operation of the group, by its index in the plan.
    ///
    /// # Panics
    /// When the plan has no group of that index.
    #[inline(always)]
    pub fn record(&mut self, group: usize, sample: &Sample) {
        self.current.groups[group].record(sample);
    }

    /// Counts one complete operation whose durations belong to the phase before, for the
    /// throughput.
    pub fn carry(&mut self, group: usize, sample: &Sample) {
        let key = SeriesKey { action: sample.action, outcome: sample.outcome };
        self.current.groups[group].at(key.index()).carry(sample);
    }

    /// Counts one sampled read by its generator lag; `None` for an excluded one.
    pub fn record_lag(&mut self, lag_ns: Option<u64>) {
        self.current.lag.record(lag_ns);
    }

    /// The records since the last call.
    pub fn take(&mut self) -> Batch {
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.take(&mut self.current);
        batch
    }

    /// Reuses a batch's memory, so that later intervals don't allocate.
    pub fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }
}
