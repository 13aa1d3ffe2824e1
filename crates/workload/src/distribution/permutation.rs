//! A bijection of `0 .. count` that looks random.

use kvmark_plan::Seed;

const ROUNDS: usize = 4;

/// Scatters ranks without collisions: a bijection of the next power of two, walked until it is back
/// below the count, which takes less than two steps on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// All ones, as many as the largest rank needs.
    mask: u64,
    /// Half of those, so that a round's upper half reaches its lower half.
    shift: u32,
    /// An odd factor and a summand per round.
    rounds: [(u64, u64); ROUNDS],
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: Seed) -> Self {
        let bits = u64::BITS - (count - 1).leading_zeros();
        let mask = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
        let mut random = seed.random(0);
        let rounds = std::array::from_fn(|_| (random.next() | 1, random.next()));
        Self { count, mask, shift: bits.div_ceil(2).max(1), rounds }
    }

    #[inline]
    pub(crate) fn apply(&self, rank: u64) -> u64 {
        let mut scattered = rank;
        loop {
            // Odd factors, summands and shifted exclusive ors can each be undone within the mask.
            for (factor, summand) in self.rounds {
                scattered = scattered.wrapping_mul(factor).wrapping_add(summand) & self.mask;
                scattered ^= scattered >> self.shift;
            }
            if scattered < self.count {
                return scattered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_own_place() {
        let counts = (1..=70).chain([255, 256, 257, 1_000, 4_096, 10_007]);
        for count in counts {
            for seed in 0..5 {
                let permutation = Permutation::new(count, Seed::derive(seed, &[]));
                let mut places: Vec<u64> = (0..count).map(|rank| permutation.apply(rank)).collect();
                places.sort_unstable();
                assert!(places.into_iter().eq(0..count), "{count} ranks, seed {seed}");
            }
        }
    }

    #[test]
    fn the_largest_count_stays_in_its_range() {
        let permutation = Permutation::new(1 << 63, Seed::derive(1, &[]));
        assert!((0..1_000).all(|rank| permutation.apply(rank) < 1 << 63));
    }

    #[test]
    fn the_first_ranks_are_spread_evenly_whatever_the_seed() {
        let mut sixteenths = [0_u32; 16];
        for seed in 0..1_000 {
            let permutation = Permutation::new(100_000, Seed::derive(seed, &[]));
            for rank in 0..10 {
                sixteenths[(permutation.apply(rank) * 16 / 100_000) as usize] += 1;
            }
        }
        // 625 are expected in each; five standard deviations are 121.
        assert!(sixteenths.iter().all(|count| count.abs_diff(625) < 121), "{sixteenths:?}");
    }
}
