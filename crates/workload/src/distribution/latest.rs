//! Distance from the newest record, zipfian over all records.

use crate::distribution::zipfian::{Power, THETA};
use kvmark_plan::Random;

/// A zipfian law for any count. Given that a zipfian draw over more ranks falls below a count, it
/// is a zipfian draw over that count; so the next power of two is drawn from, whose area is known.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    power: Power,
    /// The area over `2^i` ranks, by i.
    areas: Box<[f64; 64]>,
}

impl Latest {
    pub(crate) fn new() -> Self {
        let power = Power::new(THETA);
        let areas = Box::new(std::array::from_fn(|i| power.area(1 << i)));
        Self { power, areas }
    }

    /// Records between the chosen one and the newest, below the count.
    #[inline]
    pub(crate) fn distance(&self, random: &mut Random, count: u64) -> u64 {
        let bits = (u64::BITS - (count - 1).leading_zeros()).min(63);
        loop {
            let distance = self.power.rank(random, 1 << bits, self.areas[bits as usize]);
            if distance < count {
                return distance;
            }
        }
    }
}
