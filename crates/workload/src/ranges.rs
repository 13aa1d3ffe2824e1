//! A set of numbers stored as ranges: small for contiguous numbers.

use std::collections::BTreeMap;

/// Disjoint ranges that don't touch, by their first number; the value is the end, exclusive.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a number and joins it to its neighbours.
    pub(crate) fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let end = self.ends.remove(&(number + 1)).unwrap_or(number + 1);
        match self.ends.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => {
                self.ends.insert(number, end);
            }
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ends.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Removes and returns the smallest number if it is below a limit.
    pub(crate) fn pop_below(&mut self, limit: u64) -> Option<u64> {
        let entry = self.ends.first_entry().filter(|entry| *entry.key() < limit)?;
        let (first, end) = entry.remove_entry();
        if first + 1 < end {
            self.ends.insert(first + 1, end);
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_the_elements_of_a_plain_set(numbers in prop::collection::vec(0..60_u64, 0..80)) {
            let mut ranges = RangeSet::default();
            let mut plain = BTreeSet::new();
            for number in numbers {
                ranges.insert(number);
                plain.insert(number);
            }
            for number in 0..62 {
                prop_assert_eq!(ranges.contains(number), plain.contains(&number));
            }
            let touching = |start: &u64| *start > 0 && plain.contains(&(start - 1));
            prop_assert!(!ranges.ends.keys().any(touching));
            while let Some(number) = ranges.pop_below(30) {
                prop_assert_eq!(Some(number), plain.pop_first());
            }
            prop_assert!(plain.first().is_none_or(|first| *first >= 30));
        }
    }
}
