//! Noise from a seed and a number, the same on every worker.

/// 2^64 over the golden ratio: neighbouring counters become distant.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The seed of one group's arrivals in one phase, from the plan's schedule seed and both indices.
#[must_use]
pub const fn seed_of(schedule_seed: u64, phase: u32, group: u32) -> u64 {
    let place = ((phase as u64) << 32) | group as u64;
    mix(mix(schedule_seed) ^ mix(place.wrapping_add(GOLDEN)))
}

/// Draw number `number` of the exponential law with mean 1.
#[inline]
pub(crate) fn exponential(seed: u64, number: u64) -> f64 {
    let noise = mix(seed.wrapping_add(number.wrapping_mul(GOLDEN)));
    // 53 bits, above 0 and up to 1.
    let uniform = ((noise >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}

/// SplitMix64's finalizer: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014.
#[inline]
const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
