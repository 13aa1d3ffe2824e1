//! cassandra-stress's laws, with identical draws.
//!
//! They follow `settings/OptionDistribution.java`, `generate/Distribution*.java` and, behind those,
//! commons-math 3.2.

use kvmark_plan::{OutOfRange, Random, RowLaw, Shape, require};

use crate::java::JavaRandom;

/// A [`RowLaw`], ready to draw.
#[derive(Clone, Debug)]
pub struct Law {
    min: i64,
    max: i64,
    shape: LawShape,
    inverted: bool,
}

#[derive(Clone, Debug)]
enum LawShape {
    Fixed,
    Uniform,
    Gaussian { mean: f64, stddev: f64 },
    Exponential { mean: f64, sums: Vec<f64> },
    Extreme { scale: f64, exponent: f64 },
    Quantized { scale: f64, exponent: f64, bounds: Vec<i64> },
    Sequence,
}

impl Law {
    /// The law at a place in the plan.
    pub fn new(law: &RowLaw, place: &str) -> Result<Self, OutOfRange> {
        let RowLaw { min, max, shape, inverted } = *law;
        let require = |usable, accepts| require(usable, || format!("{place}.min"), min, accepts);
        require(min <= max, "a number up to max")?;
        require(max.checked_sub(min).is_some_and(|w| w < i64::MAX), "a range below 2^63")?;
        let shape =
            if min == max { LawShape::Fixed } else { LawShape::new(min, max, shape, place)? };
        Ok(Self { min, max, shape, inverted })
    }

    /// The smallest number and the largest.
    pub const fn bounds(&self) -> (i64, i64) {
        (self.min, self.max)
    }

    /// Draws one number.
    #[inline]
    pub(crate) fn draw(&self, random: &mut JavaRandom) -> i64 {
        let drawn = match &self.shape {
            LawShape::Fixed => return self.min,
            LawShape::Sequence => self.min + random.count() % (self.max - self.min + 1),
            LawShape::Quantized { bounds, .. } => {
                let drawn = self.real(random) as i64;
                let step =
                    bounds.partition_point(|bound| *bound <= drawn).clamp(1, bounds.len() - 1);
                let (low, high) = (bounds[step - 1], bounds[step]);
                low + (random.double() * (high - low) as f64) as i64
            }
            // Casting rounds towards zero, before the bounds apply.
            LawShape::Uniform | LawShape::Gaussian { .. } => {
                (self.real(random) as i64).clamp(self.min, self.max)
            }
            LawShape::Exponential { .. } | LawShape::Extreme { .. } => {
                let width = self.max - self.min;
                self.min + (self.offset(random) as i64).clamp(0, width)
            }
        };
        if self.inverted { self.min + self.max - drawn } else { drawn }
    }

    /// Draws one number with its fraction.
    pub(crate) fn draw_real(&self, random: &mut JavaRandom) -> f64 {
        let (min, max) = (self.min as f64, self.max as f64);
        let drawn = match &self.shape {
            LawShape::Fixed => return min,
            LawShape::Sequence => return self.draw(random) as f64,
            _ => self.real(random).clamp(min, max),
        };
        if self.inverted { min + max - drawn } else { drawn }
    }

    /// Draws an ordinal with a sequence of kvmark's.
    #[inline(never)]
    pub fn ordinal(&self, mut random: Random) -> u64 {
        let seed = random.next().cast_signed();
        self.draw(&mut JavaRandom::new(seed)).cast_unsigned()
    }

    /// The number before it is clamped to the bounds.
    fn real(&self, random: &mut JavaRandom) -> f64 {
        let (min, max) = (self.min as f64, self.max as f64);
        match &self.shape {
            LawShape::Uniform => {
                let drawn = random.double();
                drawn * (max + 1.0) + (1.0 - drawn) * min
            }
            LawShape::Gaussian { mean, stddev } => stddev * random.gaussian() + mean,
            _ => min + self.offset(random),
        }
    }

    /// The distance from the smallest.
    fn offset(&self, random: &mut JavaRandom) -> f64 {
        match &self.shape {
            LawShape::Exponential { mean, sums } => exponential(*mean, sums, random),
            LawShape::Extreme { scale, exponent } | LawShape::Quantized { scale, exponent, .. } => {
                scale * (-(1.0 - random.double()).ln()).powf(*exponent)
            }
            _ => 0.0,
        }
    }
}

/// Draws `count` numbers from a seed.
///
/// # Errors [`OutOfRange`] if a parameter of the law is invalid.
pub fn drawn(law: &RowLaw, seed: i64, count: usize) -> Result<Vec<i64>, OutOfRange> {
    let law = Law::new(law, "law")?;
    let mut random = JavaRandom::new(seed);
    Ok((0..count).map(|_| law.draw(&mut random)).collect())
}

impl LawShape {
    fn new(min: i64, max: i64, shape: Shape, place: &str) -> Result<Self, OutOfRange> {
        let width = (max - min) as f64;
        // The law is scaled so that this share of it lies within the bounds; the rest is clamped.
        let within = 1.0 - (1.0 / width).sqrt();
        // A width of 1 would need infinite scaling; then all draws are the larger bound.
        let reach = (-(1.0 - within).ln()).max(f64::MIN_POSITIVE);
        let weibull = |shape: f64| -> Result<(f64, f64), OutOfRange> {
            let usable = shape > 0.0 && shape.is_finite();
            require(usable, || format!("{place}.shape"), shape, "a shape above 0")?;
            Ok((width / reach.powf(1.0 / shape), 1.0 / shape))
        };
        Ok(match shape {
            Shape::Uniform => Self::Uniform,
            Shape::Sequence => Self::Sequence,
            Shape::Gaussian { mean, stddev } => {
                let usable = stddev > 0.0 && stddev.is_finite() && mean.is_finite();
                require(usable, || format!("{place}.stddev"), stddev, "a deviation above 0")?;
                Self::Gaussian { mean, stddev }
            }
            Shape::Exponential => {
                let mean = width / reach;
                Self::Exponential { mean, sums: sums_of_ln_2() }
            }
            Shape::Extreme { shape } => {
                let (scale, exponent) = weibull(shape)?;
                Self::Extreme { scale, exponent }
            }
            Shape::QuantizedExtreme { shape, steps } => {
                require(steps > 0, || format!("{place}.steps"), steps, "at least one step")?;
                let (scale, exponent) = weibull(shape)?;
                let inner = (1..steps).map(|step| {
                    let share = f64::from(step) / f64::from(steps);
                    let offset = scale * (-(1.0 - share).ln()).powf(exponent);
                    min + (offset as i64).clamp(0, max - min)
                });
                let bounds = std::iter::once(min).chain(inner).chain([max + 1]).collect();
                Self::Quantized { scale, exponent, bounds }
            }
        })
    }
}

/// The sums of ln(2)^k / k!, until they reach 1.
fn sums_of_ln_2() -> Vec<f64> {
    let ln_2 = 2.0_f64.ln();
    let (mut sums, mut sum, mut factorial, mut power) = (Vec::new(), 0.0, 1.0, 1.0);
    while sum < 1.0 {
        power *= ln_2;
        factorial *= (sums.len() + 1) as f64;
        sum += power / factorial;
        sums.push(sum);
    }
    sums
}

/// An exponential deviate (J. H. Ahrens and U. Dieter, algorithm SA, CACM 15, 1972).
fn exponential(mean: f64, sums: &[f64], random: &mut JavaRandom) -> f64 {
    let (mut whole, mut part) = (0.0, random.double());
    while part < 0.5 {
        whole += sums[0];
        part *= 2.0;
    }
    part += part - 1.0;
    if part <= sums[0] {
        return mean * (whole + part);
    }
    let (mut step, mut least) = (0, random.double());
    loop {
        step += 1;
        least = f64::min(least, random.double());
        if sums.get(step).is_none_or(|sum| part <= *sum) {
            return mean * (whole + least * sums[0]);
        }
    }
}
