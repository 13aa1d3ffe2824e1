//! `java.util.Random`: 48 bits of state, and the draws that Java documents.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// 2^-53, the distance between neighbouring fractions.
const FRACTION: f64 = 1.0 / (1_u64 << 53) as f64;

/// Java's generator, and a counter for the sequential law.
#[derive(Clone, Debug)]
pub(crate) struct JavaRandom {
    state: u64,
    /// The second number of a pair of normal ones.
    normal: Option<f64>,
    counter: i64,
}

impl JavaRandom {
    pub(crate) const fn new(seed: i64) -> Self {
        Self { state: (seed.cast_unsigned() ^ MULTIPLIER) & MASK, normal: None, counter: seed }
    }

    /// The highest `count` of the next 48 bits, as a signed number of 32.
    #[inline]
    const fn bits(&mut self, count: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        (self.state >> (48 - count)) as i32
    }

    /// 64 bits; a negative lower half borrows from the upper one.
    #[inline]
    pub(crate) const fn long(&mut self) -> i64 {
        let high = (self.bits(32) as i64) << 32;
        high.wrapping_add(self.bits(32) as i64)
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub(crate) const fn double(&mut self) -> f64 {
        let high = (self.bits(26) as i64) << 27;
        (high + self.bits(27) as i64) as f64 * FRACTION
    }

    /// Normally distributed with mean 0 and deviation 1, by the polar method.
    pub(crate) fn gaussian(&mut self) -> f64 {
        if let Some(normal) = self.normal.take() {
            return normal;
        }
        loop {
            let [first, second] = [self.double(), self.double()].map(|drawn| 2.0 * drawn - 1.0);
            let square = first * first + second * second;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.normal = Some(second * factor);
                return first * factor;
            }
        }
    }

    /// The seed, then one more on each call.
    pub(crate) const fn count(&mut self) -> i64 {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        counter
    }
}
