//! The key of an earlier operation, or a newly drawn one: popularity with temporal locality.
//!
//! With some probability an operation copies the key of an earlier operation, which may itself be a
//! copy. The copied operation is a function of (seed, number), so any worker finds the origin of a
//! key without drawing the operations in between. Origins don't depend on the keys drawn for them,
//! so each key has the law's distribution. On the difference between popularity and locality, and
//! the cost of ignoring locality: Cao, Dong, Vemuri and Du, "Characterizing, Modeling, and
//! Benchmarking RocksDB Key-Value Workloads at Facebook", FAST '20.

use kvmark_plan::{OutOfRange, Random, Seed, cumulative, require};

/// Longest chain of copies that is followed, which bounds an operation's cost.
const DEPTH: u32 = 64;
/// A larger power of two doesn't fit 64 bits.
const OCTAVES: usize = 63;

#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// The seed of the law's draws.
    ranks: Seed,
    copies: Seed,
    share: f64,
    /// See [`cumulative`]; by octave of gaps.
    sums: Vec<u64>,
    total: u64,
}

impl Again {
    /// Copies with the seed of a group's keys in a phase.
    pub(crate) fn new(
        share: f64,
        gaps: &[u64],
        seed: Seed,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        let place = |name: &str| format!("{place}.distribution.{name}");
        let usable = (0.0..1.0).contains(&share);
        require(usable, || place("share"), share, "a share from 0 to below 1")?;
        let sums = cumulative(gaps).filter(|_| gaps.len() <= OCTAVES);
        let (sums, total) = sums.ok_or_else(|| OutOfRange {
            place: place("gaps"),
            value: format!("{gaps:?}"),
            range: "1 to 63 weights with a sum from 1 to 2^64 - 1",
        })?;
        let [ranks, copies] = [0, 1].map(|source| seed.within(source));
        Ok(Self { ranks, copies, share, sums, total })
    }

    /// The operation whose key this one has, and the random sequence of its key.
    #[inline]
    pub(crate) fn origin(&self, number: u64) -> (u64, Random) {
        let mut origin = number;
        for _ in 0..DEPTH {
            let mut random = self.copies.random(origin);
            if random.fraction() >= self.share {
                break;
            }
            let weight = random.below(self.total);
            let octave = 1 << self.sums.partition_point(|sum| *sum <= weight);
            let gap = octave + random.below(octave);
            // The first operation has none before it.
            let Some(before) = origin.checked_sub(gap) else { break };
            origin = before;
        }
        (origin, self.ranks.random(origin))
    }
}
