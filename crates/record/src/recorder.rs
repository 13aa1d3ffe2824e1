//! What a worker holds: one recorder, no locks, no allocation once its series exist.

use std::mem;

use crate::lag::LagTally;
use crate::names::{Names, SeriesKey};
use crate::series::{Sample, SeriesTally};

/// One worker's recorder.
#[derive(Debug)]
pub struct Recorder {
    current: Batch,
    spare: Vec<Batch>,
}

impl Recorder {
    /// A recorder for a plan with groups and statements of these names.
    #[must_use]
    pub fn new(names: &Names) -> Self {
        Self { current: Batch::new(names), spare: Vec::new() }
    }

    /// Counts one finished operation of the group, by its index in the plan.
    ///
    /// # Panics
    /// When the plan has no group of that index.
    #[inline]
    pub fn record(&mut self, group: usize, sample: &Sample) {
        self.current.groups[group].record(sample);
    }

    /// Counts one finished operation whose times belong to the phase before, for the throughput.
    pub fn carry(&mut self, group: usize, sample: &Sample) {
        let key = SeriesKey { action: sample.action, outcome: sample.outcome };
        match &mut self.current.groups[group].series[key.index()] {
            Some(series) => series.carry(sample),
            missing => create(missing).carry(sample),
        }
    }

    /// Counts one sampled read by its generator lag; none for one that is left out.
    pub fn record_lag(&mut self, lag_ns: Option<u64>) {
        self.current.lag.get_or_insert_with(|| Box::new(LagTally::new())).record(lag_ns);
    }

    /// Everything since the last take.
    pub fn take(&mut self) -> Batch {
        let empty = match self.spare.pop() {
            Some(batch) => batch,
            None => self.current.like(),
        };
        mem::replace(&mut self.current, empty)
    }

    /// Gives a batch's memory back, so that later intervals allocate nothing. Clear it before, on
    /// another thread: otherwise it is cleared here.
    pub fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }
}

/// What one worker recorded in one interval, or several workers together.
#[derive(Debug)]
pub struct Batch {
    groups: Vec<GroupBatch>,
    /// Created when first needed.
    lag: Option<Box<LagTally>>,
}

impl Batch {
    pub(crate) fn new(names: &Names) -> Self {
        let series = SeriesKey::count(names.statements.len());
        Self { groups: names.groups.iter().map(|_| GroupBatch::new(series)).collect(), lag: None }
    }

    /// An empty one for the same plan.
    fn like(&self) -> Self {
        let empty = |group: &GroupBatch| GroupBatch::new(group.series.len());
        Self { groups: self.groups.iter().map(empty).collect(), lag: None }
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let idle = self.groups.iter().all(|group| group.recorded().next().is_none());
        idle && self.lag().is_none()
    }

    /// Forgets what was recorded and keeps the memory. Costs nothing when already clear.
    pub fn clear(&mut self) {
        for group in &mut self.groups {
            group.clear();
        }
        if let Some(lag) = self.lag.as_deref_mut().filter(|lag| !lag.is_empty()) {
            lag.clear();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            group.merge(other);
        }
        if let Some(theirs) = other.lag() {
            self.lag.get_or_insert_with(|| Box::new(LagTally::new())).merge(theirs);
        }
    }

    /// The sampled reads, if there are any.
    pub(crate) fn lag(&self) -> Option<&LagTally> {
        self.lag.as_deref().filter(|lag| !lag.is_empty())
    }

    pub(crate) fn groups(&self) -> &[GroupBatch] {
        &self.groups
    }
}

/// The series of one group.
#[derive(Debug)]
pub(crate) struct GroupBatch {
    /// By [`SeriesKey::index`]; created when first needed.
    series: Box<[Option<Box<SeriesTally>>]>,
}

impl GroupBatch {
    fn new(series: usize) -> Self {
        Self { series: (0..series).map(|_| None).collect() }
    }

    /// Issued late, and of these because their client was busy; parts not counted.
    pub(crate) fn late(&self) -> (u64, u64) {
        let whole = self.recorded().filter(|(key, _)| !key.action.is_part());
        whole
            .fold((0, 0), |(late, busy), (_, series)| (late + series.late, busy + series.late_busy))
    }

    /// The series in which something was recorded, in the order of their indices.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (SeriesKey, &SeriesTally)> {
        self.series.iter().enumerate().filter_map(|(index, series)| {
            let series = series.as_deref().filter(|series| !series.is_empty())?;
            Some((SeriesKey::at(index), series))
        })
    }

    #[inline]
    fn record(&mut self, sample: &Sample) {
        let key = SeriesKey { action: sample.action, outcome: sample.outcome };
        match &mut self.series[key.index()] {
            Some(series) => series.record(sample),
            missing => create(missing).record(sample),
        }
    }

    fn merge(&mut self, other: &Self) {
        for (key, theirs) in other.recorded() {
            let mine = &mut self.series[key.index()];
            mine.get_or_insert_with(|| Box::new(SeriesTally::new())).merge(theirs);
        }
    }

    fn clear(&mut self) {
        for series in self.series.iter_mut().flatten().filter(|series| !series.is_empty()) {
            series.clear();
        }
    }
}

/// Kept out of the recording path.
#[cold]
#[inline(never)]
fn create(missing: &mut Option<Box<SeriesTally>>) -> &mut SeriesTally {
    missing.insert(Box::new(SeriesTally::new()))
}
