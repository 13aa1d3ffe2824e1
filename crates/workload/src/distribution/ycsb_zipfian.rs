//! YCSB's scrambled zipfian: a zipfian draw over 10^10 items, hashed and folded into the count.
//!
//! This is not a zipfian law over the count: popular items collide on one rank, and much of the
//! mass is spread uniformly. It matches YCSB so that results are comparable.

use crate::distribution::zipfian::THETA;
use crate::key::ycsb_hash;
use kvmark_plan::Random;

/// YCSB counts both ends of `0 ..= 10^10`.
const ITEMS: f64 = 10_000_000_001.0;
/// The sum of `i^-theta` over the items, as YCSB's `ScrambledZipfianGenerator` holds it.
const ZETA_OF_ITEMS: f64 = 26.469_028_201_783_02;

/// `x^100`, where 100 is `1 / (1 - theta)`. Half the time of the general power.
#[inline]
fn hundredth_power(x: f64) -> f64 {
    let square = |x: f64| x * x;
    let to_the_4th = square(square(x));
    let to_the_32nd = square(square(square(to_the_4th)));
    square(to_the_32nd) * (to_the_32nd * to_the_4th)
}

/// The draw of Gray et al. (SIGMOD 1994): two exact items, then an inverted approximation.
#[derive(Clone, Debug)]
pub(crate) struct YcsbZipfian {
    count: u64,
    /// Mass of item 0.
    first: f64,
    /// Mass of items 0 and 1.
    second: f64,
    eta: f64,
}

impl YcsbZipfian {
    pub(crate) fn new(count: u64) -> Self {
        let zeta_of_two = 1.0 + 0.5_f64.powf(THETA);
        let tail = 1.0 - (2.0 / ITEMS).powf(1.0 - THETA);
        Self {
            count,
            first: 1.0 / ZETA_OF_ITEMS,
            second: zeta_of_two / ZETA_OF_ITEMS,
            eta: tail / (1.0 - zeta_of_two / ZETA_OF_ITEMS),
        }
    }

    #[inline]
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let uniform = random.fraction();
        let item = if uniform < self.first {
            0
        } else if uniform < self.second {
            1
        } else {
            (ITEMS * hundredth_power(self.eta * uniform - self.eta + 1.0)) as u64
        };
        // Java's remainder is negative only for i64::MIN; its magnitude is used.
        ycsb_hash(item).unsigned_abs() % self.count
    }
}
