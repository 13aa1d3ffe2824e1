//! How many partitions each operation has, and which.

use kvmark_plan::Rows;

/// The partitions of operations that take one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// Partitions before each operation of a round, then those of the whole round.
    before: Vec<u64>,
    in_all: u64,
}

impl Turns {
    /// Those of a statement's [`Rows`], which have some.
    pub(crate) fn new(rows: &Rows) -> Self {
        let sum = |sum: &mut u64, count: &u64| {
            *sum = sum.saturating_add(*count);
            Some(*sum)
        };
        let before = std::iter::once(0).chain(rows.partitions.iter().scan(0, sum)).collect();
        Self { before, in_all: rows.partitions_in_all.unwrap_or(u64::MAX) }
    }

    /// Partitions before operation `number`.
    #[inline]
    pub(crate) fn first(&self, number: u64) -> u64 {
        let round = self.before.len() as u64 - 1;
        let whole = self.before[round as usize];
        (number / round).wrapping_mul(whole).wrapping_add(self.before[(number % round) as usize])
    }

    /// Partitions of operation `number`: at least one, because an operation does something.
    #[inline]
    pub(crate) fn count(&self, number: u64) -> u64 {
        let end = self.first(number.wrapping_add(1)).min(self.in_all);
        end.saturating_sub(self.first(number)).max(1)
    }
}
