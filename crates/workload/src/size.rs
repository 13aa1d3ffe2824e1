//! Laws of sizes and counts.

use kvmark_plan::{OutOfRange, Random, SizeLaw, cumulative, require};

use crate::distribution::{MOST, THETA, Zipfian};

/// A [`SizeLaw`], ready to draw from.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    Constant(u64),
    Uniform {
        min: u64,
        max: u64,
    },
    Zipfian {
        min: u64,
        law: Zipfian,
    },
    Histogram {
        block_size: u64,
        /// See [`cumulative`].
        sums: Vec<u64>,
        total: u64,
    },
}

impl Sizes {
    /// The law at a place in the plan.
    pub(crate) fn new(law: &SizeLaw, place: &str) -> Result<Self, OutOfRange> {
        match *law {
            SizeLaw::Constant { size } => Ok(Self::Constant(size)),
            SizeLaw::Uniform { min, max } => {
                require(min <= max, || format!("{place}.min"), min, "a size up to max")?;
                Ok(Self::Uniform { min, max })
            }
            SizeLaw::Zipfian { min, max } => {
                require(min <= max, || format!("{place}.min"), min, "a size up to max")?;
                let span = max - min;
                require(span < MOST, || format!("{place}.max"), max, "at most min + 2^63 - 1")?;
                Ok(Self::Zipfian { min, law: Zipfian::new(span + 1, THETA) })
            }
            SizeLaw::Histogram { block_size, ref weights } => {
                Self::histogram(block_size, weights, place)
            }
        }
    }

    fn histogram(block_size: u64, weights: &[u64], place: &str) -> Result<Self, OutOfRange> {
        let largest = block_size.checked_mul(weights.len() as u64);
        let usable = "a width at which every bucket is below 2^64";
        require(largest.is_some(), || format!("{place}.block_size"), block_size, usable)?;
        let (sums, total) = cumulative(weights).ok_or_else(|| OutOfRange {
            place: format!("{place}.weights"),
            value: format!("{weights:?}"),
            range: "weights with a sum from 1 to 2^64 - 1",
        })?;
        Ok(Self::Histogram { block_size, sums, total })
    }

    /// The size, if it is constant.
    pub(crate) const fn constant(&self) -> Option<u64> {
        if let Self::Constant(size) = *self { Some(size) } else { None }
    }

    /// Draws a size.
    #[inline(always)]
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        if let Self::Constant(size) = self { *size } else { self.draw_one(random) }
    }

    fn draw_one(&self, random: &mut Random) -> u64 {
        match self {
            Self::Constant(size) => *size,
            Self::Uniform { min, max } => random.within(*min, *max),
            Self::Zipfian { min, law } => min + law.rank(random),
            Self::Histogram { block_size, sums, total } => {
                let drawn = random.below(*total);
                let bucket = sums.partition_point(|sum| *sum <= drawn);
                (bucket as u64 + 1) * block_size
            }
        }
    }
}
