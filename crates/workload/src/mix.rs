//! Which operation of the mix belongs to a number.

use kvmark_plan::{Kind, Weight};

/// An operation of a mix: its kind, and its statement, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MixEntry {
    pub(crate) kind: Kind,
    pub(crate) statement: Option<u32>,
}

/// Entries with their share of all 64-bit numbers.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// Each entry has the numbers up to its bound that no earlier entry has.
    bounds: Vec<(u64, MixEntry)>,
    /// Has the rest.
    last: MixEntry,
}

impl Mix {
    /// The mix of these weights; none when no weight is above 0.
    pub(crate) fn new(weights: &[Weight]) -> Option<Self> {
        let used = weights.iter().filter(|entry| entry.weight > 0.0);
        let total: f64 = used.clone().map(|entry| entry.weight).sum();
        let mut bounds = Vec::new();
        let mut sum = 0.0;
        for entry in used {
            sum += entry.weight;
            // The cast saturates, and the last bound isn't used.
            let choice = MixEntry { kind: entry.kind, statement: entry.statement };
            bounds.push(((sum / total * 2.0_f64.powi(64)) as u64, choice));
        }
        let (_, last) = bounds.pop()?;
        Some(Self { bounds, last })
    }

    /// The only entry, if nothing has to be drawn.
    #[inline]
    pub(crate) const fn only(&self) -> Option<&MixEntry> {
        if self.bounds.is_empty() { Some(&self.last) } else { None }
    }

    /// The entry of a uniform number.
    #[inline]
    pub(crate) fn choice(&self, uniform: u64) -> &MixEntry {
        let taken = self.bounds.iter().find(|(bound, _)| uniform < *bound);
        taken.map_or(&self.last, |(_, choice)| choice)
    }

    /// All entries that can be drawn.
    pub(crate) fn choices(&self) -> impl Iterator<Item = MixEntry> {
        self.bounds.iter().map(|(_, choice)| *choice).chain([self.last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(kind: Kind, weight: f64) -> Weight {
        Weight { kind, statement: None, weight }
    }

    #[test]
    fn weights_are_relative_and_divide_the_numbers_in_order() {
        let mix = Mix::new(&[weight(Kind::Read, 3.0), weight(Kind::Scan, 1.0)]).unwrap();
        let kind = |uniform| mix.choice(uniform).kind;
        assert_eq!(kind(0), Kind::Read);
        assert_eq!(kind((3 << 62) - 1), Kind::Read);
        assert_eq!(kind(3 << 62), Kind::Scan);
        assert_eq!(kind(u64::MAX), Kind::Scan);
        assert_eq!(mix.only(), None);
    }

    #[test]
    fn a_kind_without_weight_is_never_drawn() {
        let mix = Mix::new(&[weight(Kind::Read, 0.5), weight(Kind::Insert, 0.0)]).unwrap();
        let read = MixEntry { kind: Kind::Read, statement: None };
        assert_eq!(mix.only(), Some(&read));
        assert_eq!(mix.choice(u64::MAX), &read);
        assert!(Mix::new(&[weight(Kind::Insert, 0.0)]).is_none());
    }
}
