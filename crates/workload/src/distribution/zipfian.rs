//! The exact zipfian law, for any theta above 0 and up to 2^63 ranks, without a sum over the ranks.
//!
//! Rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6, 1996): a point is drawn under the hat
//! `x^-theta`, whose area has a closed form, and rounded to a rank; it is kept when it lies in the
//! part of the rank's column that has the rank's mass.

use kvmark_plan::{OutOfRange, Random, require};

/// YCSB's exponent, used if the plan has none.
pub(crate) const THETA: f64 = 0.99;

/// The most ranks that the law takes.
pub(crate) const MOST: u64 = 1 << 63;

/// From here on hat and mass differ by less than 2^-64 of themselves, so that every point is kept.
const SMOOTH: f64 = 4_294_967_296.0;

/// The hat of one exponent, with ranks from 1 as the law has them.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    theta: f64,
    /// `1 - theta`, the exponent of the area.
    slope: f64,
    /// Start of the first rank's column, measured as area.
    begin: f64,
    /// The first rank.
    first: u64,
    /// A point at most this distance left of its rank is always kept.
    shortcut: f64,
}

impl Power {
    pub(crate) fn new(theta: f64) -> Self {
        let slope = 1.0 - theta;
        let mut power = Self { theta, slope, begin: 0.0, first: 1, shortcut: 0.0 };
        power.begin = power.integral(1.5) - 1.0;
        power.shortcut = 2.0 - power.inverse(power.integral(2.5) - 2.0_f64.powf(-theta));
        power
    }

    /// The law without the first `ranks` ranks.
    pub(crate) fn behind(mut self, ranks: u64) -> Self {
        if ranks > 0 {
            self.begin = self.integral(ranks as f64 + 0.5);
            self.first = ranks + 1;
        }
        self
    }

    /// The area up to and including the last of `count` ranks, needed to draw among them.
    pub(crate) fn area(&self, count: u64) -> f64 {
        self.integral(count as f64 + 0.5)
    }

    /// The area under the hat between 1 and `x`.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        if self.slope == 0.0 { log } else { (self.slope * log).exp_m1() / self.slope }
    }

    /// The point up to which the area is `area`.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        if self.slope == 0.0 {
            return area.exp();
        }
        // Rounding can carry the product past its limit when theta is large.
        ((area * self.slope).max(-1.0).ln_1p() / self.slope).exp()
    }

    /// Draws a rank up to `count`, the first as 0, where `area` is [`Self::area`] of the count.
    #[inline]
    pub(crate) fn rank(&self, random: &mut Random, count: u64, area: f64) -> u64 {
        loop {
            let point = area + random.positive_fraction() * (self.begin - area);
            let x = self.inverse(point);
            if x >= SMOOTH {
                return self.smooth_rank(x, random, count, area);
            }
            let rank = (x + 0.5) as u64;
            let rank = rank.clamp(self.first, count);
            let column = rank as f64;
            if column - x <= self.shortcut
                || point >= self.integral(column + 0.5) - column.powf(-self.theta)
            {
                return rank - 1;
            }
        }
    }

    /// The rank at a large point, where neighbouring floating-point numbers skip ranks. The law is
    /// flat over many ranks, so the rank is drawn from a range that is wide compared with the gaps
    /// and narrow compared with x.
    #[cold]
    fn smooth_rank(&self, x: f64, random: &mut Random, count: u64, area: f64) -> u64 {
        let drawn_apart = (area - self.begin) * f64::EPSILON * x.powf(self.theta);
        let rounded_apart = x.ln() * f64::EPSILON * x;
        let stretch = 256.0 * (drawn_apart + rounded_apart);
        let rank = (x as u64).saturating_add(random.below((stretch as u64).saturating_add(1)));
        rank.clamp(self.first, count) - 1
    }
}

/// The law over a fixed number of ranks, the first the most popular.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    power: Power,
    count: u64,
    area: f64,
}

impl Zipfian {
    /// The law over 1 to 2^63 ranks, with theta above 0.
    pub(crate) fn new(count: u64, theta: f64) -> Self {
        debug_assert!((1..=MOST).contains(&count) && theta > 0.0);
        let power = Power::new(theta);
        let area = power.area(count);
        Self { power, count, area }
    }

    /// Draws a rank from 0.
    #[inline]
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        self.power.rank(random, self.count, self.area)
    }
}

/// The most popular ranks with individual shares, the others by an exponent.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Shares up to and including each of the first ranks.
    sums: Vec<f64>,
    tail: Power,
    count: u64,
    area: f64,
}

impl Head {
    pub(crate) fn new(
        count: u64,
        shares: &[f64],
        theta: f64,
        place: &str,
    ) -> Result<Self, OutOfRange> {
        let theta_place = || format!("{place}.distribution.theta");
        require(theta > 0.0 && theta.is_finite(), theta_place, theta, "a theta above 0")?;
        let ranks = shares.len() as u64;
        let more = "a count above the number of shares and up to 2^63";
        require((ranks + 1..=MOST).contains(&count), || format!("{place}.count"), count, more)?;
        let mut sum = 0.0;
        let add = |share: &f64| {
            sum += share;
            sum
        };
        let sums: Vec<f64> = shares.iter().map(add).collect();
        let usable = shares.iter().all(|share| *share >= 0.0) && sum <= 1.0;
        let shares_place = || format!("{place}.distribution.shares");
        require(usable, shares_place, sum, "shares with a sum up to 1")?;
        let tail = Power::new(theta).behind(ranks);
        let area = tail.area(count);
        Ok(Self { sums, tail, count, area })
    }

    #[inline]
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let drawn = random.fraction();
        let rank = self.sums.partition_point(|sum| *sum <= drawn);
        if rank < self.sums.len() {
            rank as u64
        } else {
            self.tail.rank(random, self.count, self.area)
        }
    }
}

/// Distance from the newest record: a zipfian law for any count. Given that a zipfian draw over
/// more ranks falls below a count, it is a zipfian draw over that count; so the next power of two
/// is drawn from, whose area is known.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    power: Power,
    /// The area over `2^i` ranks, by i.
    areas: Box<[f64; 64]>,
}

impl Latest {
    pub(crate) fn new() -> Self {
        let power = Power::new(THETA);
        let areas = Box::new(std::array::from_fn(|i| power.area(1 << i)));
        Self { power, areas }
    }

    /// Records between the chosen one and the newest, below the count.
    #[inline]
    pub(crate) fn distance(&self, random: &mut Random, count: u64) -> u64 {
        let bits = (u64::BITS - (count - 1).leading_zeros()).min(63);
        loop {
            let distance = self.power.rank(random, 1 << bits, self.areas[bits as usize]);
            if distance < count {
                return distance;
            }
        }
    }
}
