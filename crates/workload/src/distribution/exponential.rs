//! Distance from the newest record, exponential, as YCSB's `ExponentialGenerator` counts it.

use kvmark_plan::{OutOfRange, Random, require};

#[derive(Clone, Debug)]
pub(crate) struct Exponential {
    /// Mean distance before it is cut to whole records.
    mean: f64,
}

impl Exponential {
    /// The law by which `percentile` percent of the distances are below `count * fraction`.
    pub(crate) fn new(
        count: u64,
        percentile: f64,
        fraction: f64,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        let percentile_place = || format!("{place}.distribution.percentile");
        let open = percentile > 0.0 && percentile < 100.0;
        require(open, percentile_place, percentile, "a percentile between 0 and 100")?;
        let fraction_place = || format!("{place}.distribution.fraction");
        let usable = fraction > 0.0 && fraction.is_finite();
        require(usable, fraction_place, fraction, "a fraction above 0")?;
        let gamma = -(1.0 - percentile / 100.0).ln() / (count as f64 * fraction);
        Ok(Self { mean: 1.0 / gamma })
    }

    /// Records between the chosen one and the newest; may exceed the number of records.
    #[inline]
    pub(crate) fn distance(&self, random: &mut Random) -> u64 {
        (-random.positive_fraction().ln() * self.mean) as u64
    }
}
