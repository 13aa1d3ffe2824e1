//! The most popular ranks with individual shares, the others by an exponent.

use crate::distribution::zipfian::{MOST, Power};
use kvmark_plan::{OutOfRange, Random, require};

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
