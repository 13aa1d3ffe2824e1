//! Random numbers from a seed.

use kvmark_plan::{GOLDEN, split_mix};

/// Uniform in [0, 1), a function of seed and number.
pub(super) fn unit(seed: u64, number: u64) -> f64 {
    let noise = split_mix(seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)));
    (noise >> 11) as f64 / (1u64 << 53) as f64
}
