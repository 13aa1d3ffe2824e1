//! The key of an earlier operation, or one by a law: popularity with temporal locality.
//!
//! An operation copies with some probability the key of the one a gap before it, which may itself
//! be a copy. Whom it copies is a function of (seed, number), so that whoever draws an operation
//! finds the one whose key it has, its origin, without having drawn those between. Origins don't
//! depend on what is drawn for them, so that each operation's key has the law's own distribution.
//! That popularity doesn't make locality, and what it costs to leave it out: Cao, Dong, Vemuri and
//! Du, "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook", FAST
//! '20.

use crate::error::{WorkloadError, require};
use crate::random::{Random, Seed};

/// So many copies of copies are followed; what is left is drawn, which bounds an operation's cost.
const DEPTH: u32 = 64;
/// A gap of a larger power of two has no place in 64 bits.
const OCTAVES: usize = 63;

#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// What the law draws from.
    ranks: Seed,
    copies: Seed,
    share: f64,
    /// Sum of the weights up to and including each octave of gaps.
    sums: Vec<u64>,
    total: u64,
}

impl Again {
    /// The copies. The seed is that of a group's keys in a phase.
    pub(crate) fn new(
        share: f64,
        gaps: &[u64],
        seed: Seed,
        place: &str,
    ) -> Result<Self, WorkloadError> {
        let place = |name: &str| format!("{place}.distribution.{name}");
        let usable = (0.0..1.0).contains(&share);
        require(usable, || place("share"), share, "a share from 0 to below 1")?;
        let sum = gaps.iter().try_fold(0_u64, |sum, weight| sum.checked_add(*weight));
        let total = sum.filter(|total| *total > 0 && gaps.len() <= OCTAVES);
        let total = total.ok_or_else(|| WorkloadError::OutOfRange {
            place: place("gaps"),
            value: format!("{gaps:?}"),
            range: "1 to 63 weights with a sum from 1 to 2^64 - 1",
        })?;
        let mut sum = 0;
        let add = |weight: &u64| {
            sum += weight;
            sum
        };
        let sums = gaps.iter().map(add).collect();
        let [ranks, copies] = [0, 1].map(|source| seed.within(source));
        Ok(Self { ranks, copies, share, sums, total })
    }

    /// The operation whose key this one has, and what its key is drawn from.
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
            // Nothing was asked before the first operation.
            let Some(before) = origin.checked_sub(gap) else { break };
            origin = before;
        }
        (origin, self.ranks.random(origin))
    }
}
