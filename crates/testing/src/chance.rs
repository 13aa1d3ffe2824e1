//! Uniform random numbers for examples, independent of the product's generators.

/// Numbers by xorshift64* (S. Vigna, ACM TOMS 42, 2016).
#[derive(Debug)]
pub struct Uniform(u64);

impl Uniform {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The state must not be 0.
        Self(seed.wrapping_mul(2) | 1)
    }

    /// The next number, below `end`.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let uniform = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(uniform) * u128::from(end)) >> 64) as u64
    }
}
