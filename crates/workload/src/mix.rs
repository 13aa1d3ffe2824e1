//! Which kind of operation a number is.

use kvmark_plan::{Kind, Weight};

/// Kinds with their share of all 64-bit numbers.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// Each kind takes the numbers up to its bound that no kind before it took.
    bounds: Vec<(u64, Kind)>,
    /// Takes the rest.
    last: Kind,
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
            // The cast saturates, and the last bound isn't looked at.
            bounds.push(((sum / total * 2.0_f64.powi(64)) as u64, entry.kind));
        }
        let (_, last) = bounds.pop()?;
        Some(Self { bounds, last })
    }

    /// Whether there is only one kind, so that nothing has to be drawn.
    #[inline]
    pub(crate) const fn only(&self) -> Option<Kind> {
        if self.bounds.is_empty() { Some(self.last) } else { None }
    }

    /// The kind to which a uniform number belongs.
    #[inline]
    pub(crate) fn kind(&self, uniform: u64) -> Kind {
        let taken = self.bounds.iter().find(|(bound, _)| uniform < *bound);
        taken.map_or(self.last, |(_, kind)| *kind)
    }

    /// Every kind that can be drawn.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.bounds.iter().map(|(_, kind)| *kind).chain([self.last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(kind: Kind, weight: f64) -> Weight {
        Weight { kind, weight }
    }

    #[test]
    fn weights_are_relative_and_divide_the_numbers_in_order() {
        let mix = Mix::new(&[weight(Kind::Read, 3.0), weight(Kind::Scan, 1.0)]).unwrap();
        assert_eq!(mix.kind(0), Kind::Read);
        assert_eq!(mix.kind((3 << 62) - 1), Kind::Read);
        assert_eq!(mix.kind(3 << 62), Kind::Scan);
        assert_eq!(mix.kind(u64::MAX), Kind::Scan);
        assert_eq!(mix.only(), None);
    }

    #[test]
    fn a_kind_without_weight_is_never_drawn() {
        let mix = Mix::new(&[weight(Kind::Read, 0.5), weight(Kind::Insert, 0.0)]).unwrap();
        assert_eq!(mix.only(), Some(Kind::Read));
        assert_eq!(mix.kind(u64::MAX), Kind::Read);
        assert!(Mix::new(&[weight(Kind::Insert, 0.0)]).is_none());
    }
}
