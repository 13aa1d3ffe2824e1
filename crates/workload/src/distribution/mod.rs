//! Chooses an ordinal among the available ones.
//!
//! A law draws over the whole range of a [`KeyChoice`], independent of existing records, so the
//! popular keys stay the same while the range fills. An unavailable ordinal is drawn again from the
//! same number's sequence. Laws that start at the newest record get the frontier as an argument.

mod again;
mod exponential;
mod hotspot;
mod permutation;
mod ycsb_zipfian;
mod zipfian;

use kvmark_plan::{Distribution, KeyChoice, OutOfRange, Random, Seed, require};

use again::Again;
use exponential::Exponential;
use hotspot::Hotspot;
use kvmark_stress_rows::Law as RowLaw;
use permutation::Permutation;
use ycsb_zipfian::YcsbZipfian;
use zipfian::{Head, Latest};
pub(crate) use zipfian::{MOST, THETA, Zipfian};

/// After this number of unavailable ordinals the choice becomes uniform over the available ones.
/// Reached only if less than about a thousandth of a law's mass is available.
const ATTEMPTS: u64 = 10_000;

#[derive(Clone, Debug)]
enum Ranks {
    Uniform,
    YcsbZipfian(YcsbZipfian),
    Zipfian(Zipfian),
    ScrambledZipfian(Zipfian, Permutation),
    Latest(Latest),
    Newest(u64),
    Hotspot(Hotspot),
    Sequential,
    Exponential(Exponential),
    Row(Box<RowLaw>),
    Head(Box<(Head, Permutation)>),
    Again(Box<(Again, KeyChooser)>),
}

/// A [`KeyChoice`], ready to choose.
#[derive(Clone, Debug)]
pub(crate) struct KeyChooser {
    start: u64,
    count: u64,
    law: Ranks,
}

impl KeyChooser {
    /// The choice at a place in the plan. The seed determines the popular keys. It is the same for
    /// all groups and phases, so that a warm-up uses the measured keys.
    ///
    /// `copies` is the seed that chooses operations with an earlier one's key; `None` without
    /// earlier operations.
    pub(crate) fn new(
        choice: &KeyChoice,
        seed: Seed,
        copies: Option<Seed>,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        let KeyChoice { start, count, ref distribution } = *choice;
        let count_place = || format!("{place}.count");
        require(count > 0, count_place, count, "at least one key")?;
        let fits = "a count that keeps start + count below 2^64";
        require(start.checked_add(count).is_some(), count_place, count, fits)?;
        let law = match *distribution {
            Distribution::Uniform => Ranks::Uniform,
            Distribution::YcsbZipfian => Ranks::YcsbZipfian(YcsbZipfian::new(count)),
            Distribution::Zipfian { theta, scrambled } => {
                let usable = theta > 0.0 && theta.is_finite();
                let theta_place = || format!("{place}.distribution.theta");
                require(usable, theta_place, theta, "a theta above 0")?;
                require(count <= MOST, count_place, count, "a count up to 2^63")?;
                let law = Zipfian::new(count, theta);
                if scrambled {
                    Ranks::ScrambledZipfian(law, Permutation::new(count, seed))
                } else {
                    Ranks::Zipfian(law)
                }
            }
            Distribution::Latest => Ranks::Latest(Latest::new()),
            Distribution::Newest { window } => Ranks::Newest(window.max(1)),
            Distribution::Hotspot { data_fraction, operation_fraction } => {
                Ranks::Hotspot(Hotspot::new(count, data_fraction, operation_fraction, place)?)
            }
            Distribution::Sequential => Ranks::Sequential,
            Distribution::Exponential { percentile, fraction } => {
                Ranks::Exponential(Exponential::new(count, percentile, fraction, place)?)
            }
            Distribution::Head { ref shares, theta } => {
                let head = Head::new(count, shares, theta, place)?;
                Ranks::Head(Box::new((head, Permutation::new(count, seed))))
            }
            Distribution::Again { share, ref gaps, ref of } => {
                let copies = copies.ok_or_else(|| OutOfRange {
                    place: format!("{place}.distribution.law"),
                    value: "again".to_owned(),
                    range: "another law here; again is for the keys of a group, and once",
                })?;
                let choice = KeyChoice { start, count, distribution: (**of).clone() };
                let law = Self::new(&choice, seed, None, place)?;
                let of = || format!("{place}.distribution.of");
                let fixed = "a law that doesn't start at the newest record";
                require(!law.follows_frontier(), of, "one that moves", fixed)?;
                Ranks::Again(Box::new((Again::new(share, gaps, copies, place)?, law)))
            }
            Distribution::Row { of } => {
                let law = RowLaw::new(&of, &format!("{place}.distribution.of"))?;
                let (min, max) = law.bounds();
                let range = |end: i64| u64::try_from(end).is_ok_and(|end| end >= start);
                let inside = range(min) && max.cast_unsigned() - start < count;
                let bounds = || format!("{place}.distribution.of");
                require(inside, bounds, max, "bounds within the range of keys")?;
                Ranks::Row(Box::new(law))
            }
        };
        Ok(Self { start, count, law })
    }

    /// Whether the law starts at the newest record.
    pub(crate) const fn follows_frontier(&self) -> bool {
        matches!(self.law, Ranks::Latest(_) | Ranks::Newest(_) | Ranks::Exponential(_))
    }

    /// The exclusive end of the ordinals, for a law that doesn't follow the frontier.
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.count
    }

    /// The first ordinal that can be chosen.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Chooses an available ordinal, or the first of the range if none is available.
    #[inline(always)]
    pub(crate) fn choose(
        &self,
        number: u64,
        random: &mut Random,
        frontier: u64,
        is_available: impl Fn(u64) -> bool,
    ) -> u64 {
        // The cheapest law, without a call.
        if let Ranks::Uniform = self.law {
            // Drawn from a copy, which stays in registers.
            let mut copy = random.clone();
            let ordinal = self.start + copy.below(self.count);
            *random = copy;
            if is_available(ordinal) {
                return ordinal;
            }
            return self.choose_again(number, random, frontier, is_available);
        }
        self.choose_by_law(number, random, frontier, is_available)
    }

    #[inline(never)]
    fn choose_by_law(
        &self,
        number: u64,
        random: &mut Random,
        frontier: u64,
        is_available: impl Fn(u64) -> bool,
    ) -> u64 {
        match self.draw(number, random, frontier) {
            Some(ordinal) if is_available(ordinal) => ordinal,
            _ => self.choose_again(number, random, frontier, is_available),
        }
    }

    /// One draw over the whole range; `None` if it falls before the range. Always inlined, so that
    /// the sequence stays in registers.
    #[inline(always)]
    fn draw(&self, number: u64, random: &mut Random, frontier: u64) -> Option<u64> {
        let rank = match &self.law {
            Ranks::Uniform => random.below(self.count),
            Ranks::YcsbZipfian(law) => law.rank(random),
            Ranks::Zipfian(law) => law.rank(random),
            Ranks::ScrambledZipfian(law, permutation) => permutation.apply(law.rank(random)),
            Ranks::Hotspot(law) => law.rank(random),
            Ranks::Sequential => number % self.count,
            // By value, so that the sequence stays in registers for the other laws.
            Ranks::Row(law) => return Some(law.ordinal(random.clone())),
            Ranks::Head(law) => law.1.apply(law.0.rank(random)),
            Ranks::Again(law) => return law.1.draw_copied(&law.0, number, frontier),
            Ranks::Latest(law) => {
                let count = frontier.checked_sub(self.start).filter(|count| *count > 0)?;
                return Some(frontier - 1 - law.distance(random, count));
            }
            Ranks::Newest(window) => {
                let count = frontier.checked_sub(self.start).filter(|count| *count > 0)?;
                return Some(frontier - 1 - random.below(count.min(*window)));
            }
            Ranks::Exponential(law) => {
                let newest = frontier.checked_sub(1)?;
                let chosen = newest.checked_sub(law.distance(random));
                return chosen.filter(|ordinal| *ordinal >= self.start);
            }
        };
        Some(self.start + rank)
    }

    /// [`Self::draw`] of an operation's origin. Not inlined, to keep other laws fast.
    #[inline(never)]
    fn draw_copied(&self, again: &Again, number: u64, frontier: u64) -> Option<u64> {
        let (origin, mut random) = again.origin(number);
        self.draw(origin, &mut random, frontier)
    }

    /// Draws until an ordinal is available, and finally uniformly below the frontier.
    #[cold]
    fn choose_again(
        &self,
        number: u64,
        random: &mut Random,
        frontier: u64,
        is_available: impl Fn(u64) -> bool,
    ) -> u64 {
        if let Ranks::Again(law) = &self.law {
            let (origin, mut random) = law.0.origin(number);
            return law.1.choose(origin, &mut random, frontier, is_available);
        }
        let below_frontier = frontier.saturating_sub(self.start);
        let visible =
            if self.follows_frontier() { below_frontier } else { below_frontier.min(self.count) };
        if visible == 0 {
            return self.start;
        }
        for attempt in 1..ATTEMPTS {
            let drawn = match &self.law {
                // Restricted to visible keys, both laws keep their form.
                Ranks::Uniform => Some(self.start + random.below(visible)),
                Ranks::Sequential => Some(self.start + number.wrapping_add(attempt - 1) % visible),
                _ => self.draw(number, random, frontier),
            };
            if let Some(ordinal) = drawn.filter(|ordinal| is_available(*ordinal)) {
                return ordinal;
            }
        }
        let mut last_resort = (0..ATTEMPTS).map(|_| self.start + random.below(visible));
        last_resort.find(|ordinal| is_available(*ordinal)).unwrap_or(self.start)
    }
}
