//! Round-robin partitions of a sequence of numbers.

use kvmark_plan::Share;

/// The numbers that some of a group's clients take when all clients of all shares take numbers
/// round-robin: modulo `cycle` these are `first`, `first + step` and so on, below `cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberPartition {
    /// Place of the first of these clients.
    pub first: u64,
    /// Distance between two of them, at least 1.
    pub step: u64,
    /// Number of clients that take numbers, at least 1.
    pub cycle: u64,
}

impl NumberPartition {
    /// All numbers.
    pub const WHOLE: Self = Self { first: 0, step: 1, cycle: 1 };

    /// The numbers of one share, as many for each share as for another.
    #[must_use]
    pub const fn of_share(share: Share) -> Self {
        let of = share.of as u64;
        Self { first: share.index as u64, step: of, cycle: of }
    }

    /// Whether the partition has no client, and so no numbers.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.first >= self.cycle
    }

    /// How many of the first `count` numbers belong to the partition.
    #[must_use]
    pub const fn of_first(self, count: u64) -> u64 {
        let whole = (count / self.cycle).saturating_mul(self.clients_below(self.cycle));
        whole.saturating_add(self.clients_below(count % self.cycle))
    }

    /// The partition's number at `index`, counted from 0.
    #[must_use]
    pub const fn nth(self, index: u64) -> u64 {
        let each = self.clients_below(self.cycle);
        let each = if each == 0 { 1 } else { each };
        index / each * self.cycle + self.first + index % each * self.step
    }

    /// The partition's clients below a place of the cycle.
    const fn clients_below(self, place: u64) -> u64 {
        if place > self.first { (place - self.first - 1) / self.step + 1 } else { 0 }
    }
}

/// Iterates over the numbers of a partition that isn't empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionCursor {
    pub(crate) partition: NumberPartition,
    pub(crate) number: u64,
    /// The number's place in the cycle.
    place: u64,
    /// From the last number of a cycle to the first of the next.
    pub(crate) leap: u64,
}

impl PartitionCursor {
    pub(crate) const fn new(partition: NumberPartition) -> Self {
        let NumberPartition { first, step, cycle } = partition;
        let last = first + (cycle - first - 1) / step * step;
        Self { partition, number: first, place: first, leap: cycle - last + first }
    }

    /// Moves to the next number; true for a leap, false for a step.
    #[inline]
    pub(crate) const fn advance(&mut self) -> bool {
        let place = self.place + self.partition.step;
        let leaps = place >= self.partition.cycle;
        self.place = if leaps { self.partition.first } else { place };
        self.number += if leaps { self.leap } else { self.partition.step };
        leaps
    }
}
