//! What a worker hands over: the values of an interval, packed one behind the other.
//!
//! A batch takes a few bytes for each value or bucket, so that many can wait for the coordinator,
//! and is read from its begin to its end: tallies lie all over the memory, and who reads those of
//! another thread waits for each. The worker's tallies stay where they are.

use crate::lag::PackedLag;
use crate::series::PackedSeries;
use crate::tallies::Tallies;
use crate::tally::PackedValues;

/// What one worker recorded in one interval.
#[derive(Debug, Default)]
pub struct Batch {
    series: Vec<Place>,
    lag: Option<PackedLag>,
    values: PackedValues,
}

/// A series in which something was recorded, by its group and its index there.
#[derive(Debug)]
struct Place {
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

    /// Forgets what was recorded and keeps the memory.
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
                self.series.push(Place { group, index, series });
            }
        }
        if tallies.lag().is_some() {
            self.lag = Some(tallies.lag_mut().pack(&mut self.values));
        }
    }

    /// Adds everything to tallies of the same plan.
    pub(crate) fn add_to(&self, tallies: &mut Tallies) {
        let mut values = self.values.reader();
        for Place { group, index, series } in &self.series {
            tallies.groups[*group as usize].at(*index as usize).add(series, &mut values);
        }
        if let Some(lag) = &self.lag {
            tallies.lag_mut().add(lag, &mut values);
        }
    }
}
