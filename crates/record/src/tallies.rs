//! The tallies of a plan's series, each created when first needed.

use crate::lag::LagTally;
use crate::names::{Names, SeriesKey};
use crate::series::{Sample, SeriesTally};

/// The tallies of one worker, or of several together.
#[derive(Debug)]
pub(crate) struct Tallies {
    pub(crate) groups: Vec<GroupTallies>,
    /// The sampled reads.
    pub(crate) lag: LagTally,
}

impl Tallies {
    pub(crate) fn new(names: &Names) -> Self {
        let series = SeriesKey::count(names.statements.len());
        let groups = names.groups.iter().map(|_| GroupTallies::new(series)).collect();
        Self { groups, lag: LagTally::default() }
    }

    /// Clears the records and keeps the memory. Free if already clear.
    pub(crate) fn clear(&mut self) {
        for group in &mut self.groups {
            group.recorded_mut().for_each(|(_, series)| series.clear());
        }
        if !self.lag.is_empty() {
            self.lag.clear();
        }
    }
}

/// The series of one group.
#[derive(Debug)]
pub(crate) struct GroupTallies {
    /// By [`SeriesKey::index`]; created when first needed.
    series: Box<[Option<Box<SeriesTally>>]>,
}

impl GroupTallies {
    fn new(series: usize) -> Self {
        Self { series: (0..series).map(|_| None).collect() }
    }

    /// The series with records, in the order of their indices.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (SeriesKey, &SeriesTally)> {
        self.series.iter().enumerate().filter_map(|(index, series)| {
            let series = series.as_deref().filter(|series| !series.is_empty())?;
            Some((SeriesKey::at(index), series))
        })
    }

    /// The same with their indices, to be changed.
    pub(crate) fn recorded_mut(&mut self) -> impl Iterator<Item = (usize, &mut SeriesTally)> {
        self.series.iter_mut().enumerate().filter_map(|(index, series)| {
            let series = series.as_deref_mut().filter(|series| !series.is_empty())?;
            Some((index, series))
        })
    }

    pub(crate) fn at(&mut self, index: usize) -> &mut SeriesTally {
        self.series[index].get_or_insert_default()
    }

    #[inline(always)]
    pub(crate) fn record(&mut self, sample: &Sample) {
        let key = SeriesKey { action: sample.action, outcome: sample.outcome };
        let series = match &mut self.series[key.index()] {
            Some(series) => &mut **series,
            missing => create(missing),
        };
        series.record(sample);
    }
}

/// Not inlined into the recording path.
#[cold]
#[inline(never)]
fn create(missing: &mut Option<Box<SeriesTally>>) -> &mut SeriesTally {
    missing.insert(Box::default())
}
