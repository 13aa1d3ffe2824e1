//! A share of the draws goes to a share of the ranks, the first ones.

use kvmark_plan::{OutOfRange, Random, require};

#[derive(Clone, Debug)]
pub(crate) struct Hotspot {
    hot: u64,
    cold: u64,
    hot_operations: f64,
}

impl Hotspot {
    pub(crate) fn new(
        count: u64,
        data_fraction: f64,
        operation_fraction: f64,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        for (name, fraction) in
            [("data_fraction", data_fraction), ("operation_fraction", operation_fraction)]
        {
            let place = || format!("{place}.distribution.{name}");
            require((0.0..=1.0).contains(&fraction), place, fraction, "a fraction from 0 to 1")?;
        }
        // As in YCSB, the hot part is cut to whole keys.
        let hot = ((count as f64 * data_fraction) as u64).min(count);
        let hot_operations = match hot {
            0 => 0.0,
            all if all == count => 1.0,
            _ => operation_fraction,
        };
        Ok(Self { hot, cold: count - hot, hot_operations })
    }

    #[inline]
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        if random.fraction() < self.hot_operations {
            random.below(self.hot)
        } else {
            self.hot + random.below(self.cold)
        }
    }
}
