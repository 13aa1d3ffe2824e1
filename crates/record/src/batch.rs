//! A worker's values of an interval, packed contiguously.
//!
//! A batch takes a few bytes per value or bucket, so that many can wait for the coordinator. It is
//! read sequentially, while the tallies of another thread are scattered and each read waits for
//! memory. The worker's tallies stay in place.

use crate::lag::PackedLag;
use crate::series::PackedSeries;
use crate::tallies::Tallies;
use crate::tally::PackedValues;

/// The records of one worker in one interval.
#[derive(Debug, Default)]
pub struct Batch {
    series: Vec<SeriesAt>,
    lag: Option<PackedLag>,
    values: PackedValues,
}

/// A series with records, by its group and its index there.
#[derive(Debug)]
struct SeriesAt {
    group: u32,
    index: u32,
    series: PackedSeries,
}

impl Batch {
    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.lag.is_none()
    }

    /// Clears the records and keeps the memory.
    pub fn clear(&mut self) {
        self.series.clear();
        self.lag = None;
        self.values.clear();
    }

    /// Takes everything out of a worker's tallies.
    pub(crate) fn take(&mut self, tallies: &mut Tallies) {
        for (group, of_group) in (0..).zip(&mut tallies.groups) {
            for (index, tally) in of_group.recorded_mut() {
                let (index, series) = (index as u32, tally.pack(&mut self.values));
                self.series.push(SeriesAt { group, index, series });
            }
        }
        if !tallies.lag.is_empty() {
            self.lag = Some(tallies.lag.pack(&mut self.values));
        }
    }

    /// Adds everything to tallies of the same plan.
    pub(crate) fn add_to(&self, tallies: &mut Tallies) {
        let mut values = self.values.reader();
        for SeriesAt { group, index, series } in &self.series {
            tallies.groups[*group as usize].at(*index as usize).add(series, &mut values);
        }
        if let Some(lag) = &self.lag {
            tallies.lag.add(lag, &mut values);
        }
    }
}
