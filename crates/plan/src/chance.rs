//! Random numbers without shared state: pure functions of (seed, number).
//!
//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) serves as a counter: the n-th number of a seed
//! is computed directly. It also starts a sequence for draws that need several numbers: wyrand
//! (Wang, Barrio and Guo, wyhash 4.2), with one multiplication per number.

/// 2^64 over the golden ratio, odd: SplitMix64's step, after which neighbours are far apart.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finalizer: a bijection in which each bit of the state flips each bit of the result
/// half the time (G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014, with the constants of D. Stafford's variant 13, as there).
#[inline]
#[must_use]
pub const fn split_mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Step and mask of wyrand.
const WYRAND: [u64; 2] = [0x2D35_8DCC_AA6C_78A5, 0x8BB8_4B93_962E_ACC9];

/// 2^-53, the distance between neighbouring uniform fractions.
const FRACTION: f64 = 1.0 / (1_u64 << 53) as f64;

/// One source of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The seed of a source within a source; different words give independent seeds.
    pub fn derive(seed: u64, words: &[u64]) -> Self {
        let start = split_mix(seed.wrapping_add(GOLDEN));
        let step = |seed, word: &u64| split_mix(seed ^ split_mix(word.wrapping_add(GOLDEN)));
        Self(words.iter().fold(start, step))
    }

    /// The uniform 64-bit number that belongs to a number.
    #[inline]
    #[must_use]
    pub const fn at(self, number: u64) -> u64 {
        split_mix(self.0.wrapping_add(number.wrapping_mul(GOLDEN)))
    }

    /// The sequence that belongs to a number.
    #[inline]
    pub const fn random(self, number: u64) -> Random {
        Random(self.at(number))
    }

    /// The seed of a number's parts.
    #[inline]
    pub const fn within(self, number: u64) -> Self {
        Self(self.at(number))
    }

    /// The sequence that belongs to a number and a part of it.
    #[inline]
    pub const fn random_of_part(self, number: u64, part: u64) -> Random {
        self.within(number).random(part)
    }
}

/// An endless sequence of uniform numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// 64 uniform bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(WYRAND[0]);
        let product = self.0 as u128 * (self.0 ^ WYRAND[1]) as u128;
        product as u64 ^ (product >> 64) as u64
    }

    /// Uniform in `0 .. bound`, without bias (Lemire, ACM TOMACS 29, 2019). The bound is above 0.
    #[inline(always)]
    pub const fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let mut product = self.next() as u128 * bound as u128;
        if (product as u64) < bound {
            let biased = bound.wrapping_neg() % bound;
            while (product as u64) < biased {
                product = self.next() as u128 * bound as u128;
            }
        }
        (product >> 64) as u64
    }

    /// Uniform in `min ..= max`.
    #[inline]
    pub const fn within(&mut self, min: u64, max: u64) -> u64 {
        match (max - min).checked_add(1) {
            Some(values) => min + self.below(values),
            None => self.next(),
        }
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub const fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 * FRACTION
    }

    /// Uniform in `(0, 1]`, for laws that take a logarithm.
    #[inline]
    pub const fn positive_fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 * FRACTION
    }
}

/// The sum of the weights up to and including each, and the total; `None` unless that is from 1 to
/// 2^64 - 1.
pub fn cumulative(weights: &[u64]) -> Option<(Vec<u64>, u64)> {
    let mut total = 0_u64;
    let mut sums = Vec::with_capacity(weights.len());
    for weight in weights {
        total = total.checked_add(*weight)?;
        sums.push(total);
    }
    (total > 0).then_some((sums, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64) -> [u64; 3] {
        [1, 2, 3].map(|n: u64| split_mix(seed.wrapping_add(n.wrapping_mul(GOLDEN))))
    }

    /// As in the task "Pseudo-random numbers/Splitmix64" of Rosetta Code.
    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers(1_234_567), published);
    }

    #[test]
    fn bounded_numbers_stay_within_their_bounds() {
        for number in 0..10_000 {
            let mut random = Seed::derive(1, &[]).random(number);
            assert!(random.below(7) < 7);
            assert_eq!(random.below(1), 0);
            assert!((3..=9).contains(&random.within(3, 9)));
            assert_eq!(random.within(5, 5), 5);
            assert!((0.0..1.0).contains(&random.fraction()));
            let positive = random.positive_fraction();
            assert!(positive > 0.0 && positive <= 1.0);
        }
    }

    #[test]
    fn the_whole_range_can_be_drawn() {
        let mut random = Seed::derive(1, &[]).random(0);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.within(0, u64::MAX)).collect();
        assert_eq!(drawn.iter().fold(0, |all, bits| all | bits), u64::MAX);
    }

    #[test]
    fn each_bit_of_seed_number_and_part_changes_half_the_bits() {
        let plain = Seed::derive(3, &[4]).random_of_part(5, 6).next();
        for bit in (0..64).map(|bit| 1_u64 << bit) {
            let others = [
                Seed::derive(3 ^ bit, &[4]).random_of_part(5, 6).next(),
                Seed::derive(3, &[4 ^ bit]).random_of_part(5, 6).next(),
                Seed::derive(3, &[4]).random_of_part(5 ^ bit, 6).next(),
                Seed::derive(3, &[4]).random_of_part(5, 6 ^ bit).next(),
            ];
            for other in others {
                let changed = (plain ^ other).count_ones();
                assert!((12..=52).contains(&changed), "{changed} bits changed");
            }
        }
    }
}
