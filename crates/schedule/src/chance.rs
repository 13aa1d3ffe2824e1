//! Noise from a seed and a number, the same on every worker.

use kvmark_plan::{GOLDEN, split_mix};

/// The seed of one group's arrivals in one phase, from the plan's schedule seed and both indices.
#[must_use]
pub const fn seed_of(schedule_seed: u64, phase: u32, group: u32) -> u64 {
    let place = ((phase as u64) << 32) | group as u64;
    split_mix(split_mix(schedule_seed) ^ split_mix(place.wrapping_add(GOLDEN)))
}

/// Draw number `number` of the exponential law with mean 1.
#[inline]
pub(crate) fn exponential(seed: u64, number: u64) -> f64 {
    let noise = split_mix(seed.wrapping_add(number.wrapping_mul(GOLDEN)));
    // 53 bits, above 0 and up to 1.
    let uniform = ((noise >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}
