//! Numbers of the partitions of each operation.

use kvmark_plan::Rows;

/// The partitions of operations that take partitions in order.
#[derive(Clone, Debug)]
pub struct PartitionCounts {
    /// Number of partitions before each operation of a round, then of the whole round.
    before: Vec<u64>,
    in_all: u64,
}

impl PartitionCounts {
    /// The counts of a statement's [`Rows`].
    pub fn new(rows: &Rows) -> Self {
        let sum = |sum: &mut u64, count: &u64| {
            *sum = sum.saturating_add(*count);
            Some(*sum)
        };
        let before = std::iter::once(0).chain(rows.partitions.iter().scan(0, sum)).collect();
        Self { before, in_all: rows.partitions_in_all.unwrap_or(u64::MAX) }
    }

    /// Number of partitions before operation `number`.
    #[inline]
    pub fn first(&self, number: u64) -> u64 {
        let round = self.before.len() as u64 - 1;
        let whole = self.before[round as usize];
        (number / round).wrapping_mul(whole).wrapping_add(self.before[(number % round) as usize])
    }

    /// Number of partitions of operation `number`, at least one.
    #[inline]
    pub fn count(&self, number: u64) -> u64 {
        let end = self.first(number.wrapping_add(1)).min(self.in_all);
        end.saturating_sub(self.first(number)).max(1)
    }
}
