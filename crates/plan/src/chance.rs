//! The one mixing function behind all chance that follows from a plan's seeds.

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
}
