//! A Poisson process whose arrivals are computed by number, without those of other partitions.
//!
//! The unit process is cut into blocks of [`BLOCK`] expected arrivals. The number of arrivals in a
//! block is a draw of Poisson's law; given that number, they are independent and uniform in the
//! block (D. J. Daley and D. Vere-Jones, "An Introduction to the Theory of Point Processes", 2.1).
//! Each of n such arrivals is in the lower half of its interval with probability 1/2, so the lower
//! half has as many as there are ones in n random bits. Halving ends at intervals with one arrival,
//! which is uniform there. A draw depends on the seed, the block and the interval only: all
//! partitions see the same process, and each descends to its own arrivals.

use kvmark_plan::Seed;

use super::rates::Rates;

/// Expected arrivals in a block. All partitions draw the counts of all blocks.
const BLOCK: usize = 1024;
/// Counts of a block are within ten standard deviations of the mean. Others have a probability
/// below 10^-20.
const COUNT_MIN: usize = BLOCK - 320;
const COUNTS: usize = 640;
/// By the count above [`COUNT_MIN`]: the sum of the probabilities up to it, in units of the first.
static SUMS: [f64; COUNTS] = sums();
/// The smallest interval is a block's 2^40th part, a billionth of the mean time between arrivals.
const DEPTH_MAX: u32 = 40;
/// An interval's draws, at least as many as words of a block's largest count.
const DRAWS: u64 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    rates: Rates,
    /// At the partition's next arrival.
    walk: Walk,
    piece: usize,
    /// At the start of a block shortly before the last queried time.
    counted: Walk,
}

/// A position in the unit process.
#[derive(Clone, Debug)]
struct Walk {
    seed: Seed,
    block: u64,
    /// The draws of the block.
    draws: Seed,
    /// Number of arrivals before the intervals.
    before: u64,
    /// The rest of the block, the earliest interval last.
    intervals: Vec<Interval>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    /// 1 is the block; the halves of place p are 2p and 2p + 1.
    place: u64,
    count: u64,
}

impl Poisson {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        let walk = Walk::new(Seed::derive(seed, &[]));
        Self { rates, walk: walk.clone(), piece: 0, counted: walk }
    }

    /// Number of arrivals due by this time.
    pub(crate) fn count_by(&mut self, at_ns: u64) -> u64 {
        // Rounding may put an arrival at a block's edge on either side of the time.
        let block = ((self.rates.integral(at_ns) / BLOCK as f64) as u64).saturating_sub(1);
        if block < self.counted.block {
            self.counted = Walk::new(self.counted.seed);
        }
        while self.counted.block < block {
            self.counted.skip_block();
        }
        let mut walk = self.counted.clone();
        let (mut number, mut piece) = (walk.before, 0);
        while self.rates.instant(walk.reach(number), &mut piece) <= at_ns {
            number += 1;
        }
        number
    }

    /// When the arrival of this number is due. Numbers must not decrease.
    #[inline]
    pub(crate) fn instant(&mut self, number: u64) -> u64 {
        self.rates.instant(self.walk.reach(number), &mut self.piece)
    }
}

impl Walk {
    fn new(seed: Seed) -> Self {
        // A descent leaves at most one interval a level.
        let intervals = Vec::with_capacity(DEPTH_MAX as usize + 2);
        let mut walk = Self { seed, block: 0, draws: seed, before: 0, intervals };
        walk.enter(0);
        walk
    }

    fn enter(&mut self, block: u64) {
        (self.block, self.draws) = (block, self.seed.within(block));
        let drawn = self.seed.random(block).fraction() * SUMS[COUNTS - 1];
        let count = COUNT_MIN + SUMS.partition_point(|sum| *sum <= drawn);
        self.intervals.push(Interval { place: 1, count: count as u64 });
    }

    /// Moves to the start of the next block.
    fn skip_block(&mut self) {
        self.before += self.intervals.drain(..).map(|interval| interval.count).sum::<u64>();
        self.enter(self.block + 1);
    }

    /// Where the arrival of this number is. Numbers must not decrease.
    fn reach(&mut self, number: u64) -> f64 {
        loop {
            let Some(interval) = self.intervals.last_mut() else {
                self.enter(self.block + 1);
                continue;
            };
            let Interval { place, count } = *interval;
            if number >= self.before + count {
                self.before += count;
                self.intervals.pop();
            } else if count == 1 || place >> DEPTH_MAX > 0 {
                return self.position(place);
            } else {
                let lower = ones(self.draws, place, count);
                *interval = Interval { place: 2 * place + 1, count: count - lower };
                if number < self.before + lower {
                    self.intervals.push(Interval { place: 2 * place, count: lower });
                } else {
                    self.before += lower;
                }
            }
        }
    }

    /// A uniform position in an interval.
    fn position(&self, place: u64) -> f64 {
        let depth = place.ilog2();
        let start = place.checked_shl(u64::BITS - depth).unwrap_or(0);
        let offset = self.draws.at(place * DRAWS) >> depth;
        let fraction = ((start | offset) >> 11) as f64 / (1_u64 << 53) as f64;
        (self.block as f64 + fraction) * BLOCK as f64
    }
}

/// How many of `count` random bits are ones.
#[inline]
fn ones(draws: Seed, place: u64, count: u64) -> u64 {
    let bits = |word| draws.at(place * DRAWS + word);
    let last = bits(count / 64) & ((1 << (count % 64)) - 1);
    let whole = (0..count / 64).map(|word| bits(word).count_ones()).sum::<u32>();
    u64::from(whole + last.count_ones())
}

/// Each probability is the one before times `BLOCK / count`.
const fn sums() -> [f64; COUNTS] {
    let mut sums = [0.0; COUNTS];
    let (mut probability, mut sum, mut index) = (1.0, 0.0, 0);
    while index < COUNTS {
        sum += probability;
        sums[index] = sum;
        index += 1;
        probability *= BLOCK as f64 / (COUNT_MIN + index) as f64;
    }
    sums
}

#[cfg(test)]
mod tests {
    use kvmark_plan::RatePoint;

    use super::*;

    #[test]
    fn counting_continues_from_the_last_query() {
        let rates = Rates::new(&[RatePoint { at_ns: 0, rate: 100_000.0 }]);
        let (mut poisson, mut before) = (Poisson::new(rates, 1), 0);
        for interval in 1..=50 {
            let due = poisson.count_by(interval * 100_000_000);
            assert!((9_000..11_000).contains(&(due - before)), "{due} {before}");
            assert!((due - 3 * BLOCK as u64..=due).contains(&poisson.counted.before));
            before = due;
        }
    }

    #[test]
    fn a_partition_descends_to_its_own_arrivals_only() {
        // Each number is reached from the block's start; then 64 partitions share one block.
        let mut walk = Walk::new(Seed::derive(1, &[]));
        let positions: Vec<f64> = (0..5000).map(|number| walk.reach(number)).collect();
        assert!(positions.is_sorted());
        for first in 0..64 {
            let mut walk = Walk::new(Seed::derive(1, &[]));
            for number in (first..5000).step_by(64) {
                assert_eq!(walk.reach(number as u64), positions[number]);
                assert!(walk.intervals.len() <= DEPTH_MAX as usize + 2);
            }
        }
    }
}
