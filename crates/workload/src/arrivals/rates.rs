//! A rate that changes linearly between points, and the evenly spaced arrivals at such a rate.

use std::sync::Arc;

use kvmark_plan::RatePoint;

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Its number among the group's arrivals over all shares, from 0.
    pub number: u64,
    /// The intended start, since the phase began.
    pub at_ns: u64,
}

/// The rate over a phase, its integral and the integral's inverse: pieces without gaps, the last
/// one without end.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pieces: Arc<[Piece]>,
}

/// A time range with a linear rate. Rates are arrivals per nanosecond.
#[derive(Clone, Debug)]
struct Piece {
    start_ns: u64,
    length_ns: f64,
    rate: f64,
    /// Change of the rate per nanosecond.
    slope: f64,
    /// The integral of the rate where the piece begins.
    start: f64,
    /// And where it ends.
    end: f64,
}

impl Rates {
    /// From the points of a checked plan: the first is at 0, their times rise, the last isn't 0.
    pub(crate) fn new(points: &[RatePoint]) -> Self {
        let mut pieces = Vec::with_capacity(points.len());
        let mut start = 0.0;
        for (index, point) in points.iter().enumerate() {
            let piece = Piece::new(point, points.get(index + 1), start);
            start = piece.end;
            pieces.push(piece);
        }
        Self { pieces: pieces.into() }
    }

    /// The integral from 0 up to a time: the number of arrivals expected by then.
    pub(crate) fn integral(&self, at_ns: u64) -> f64 {
        let after = self.pieces.partition_point(|piece| piece.start_ns <= at_ns);
        let piece = &self.pieces[after - 1];
        let offset_ns = (at_ns - piece.start_ns) as f64;
        piece.start + offset_ns * (piece.rate + 0.5 * piece.slope * offset_ns)
    }

    /// Where the integral passes a value: the last instant if it stays there, so that nothing is
    /// due while the rate is 0. The search starts at `piece` and stores its result there, so that
    /// increasing values are found immediately.
    #[inline]
    pub(crate) fn instant(&self, value: f64, piece: &mut usize) -> u64 {
        while value >= self.pieces[*piece].end {
            *piece += 1;
        }
        let piece = &self.pieces[*piece];
        // A cast of a float ends at the largest whole number.
        piece.start_ns.saturating_add(piece.offset_ns(value - piece.start) as u64)
    }
}

impl Piece {
    fn new(point: &RatePoint, next: Option<&RatePoint>, start: f64) -> Self {
        let (start_ns, rate) = (point.at_ns, point.rate * 1e-9);
        let Some(next) = next else {
            let endless = f64::INFINITY;
            return Self { start_ns, length_ns: endless, rate, slope: 0.0, start, end: endless };
        };
        let (length_ns, rise) = ((next.at_ns - start_ns) as f64, next.rate * 1e-9 - rate);
        let end = start + length_ns * (rate + 0.5 * rise);
        Self { start_ns, length_ns, rate, slope: rise / length_ns, start, end }
    }

    /// The time t from the begin of the piece at which `rate · t + slope · t² / 2` is the value:
    /// the root of the quadratic in the form that subtracts nothing when the rate rises.
    #[inline]
    fn offset_ns(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        if self.slope == 0.0 {
            return value / self.rate;
        }
        let rate_there = (self.rate * self.rate + 2.0 * self.slope * value).max(0.0).sqrt();
        (2.0 * value / (self.rate + rate_there)).min(self.length_ns)
    }
}

/// Arrival i is due where the integral of the rate passes i, computed separately for each i.
#[derive(Clone, Debug)]
pub(crate) struct Ramped {
    pub(crate) rates: Rates,
    pub(crate) piece: usize,
}

impl Ramped {
    /// When the arrival of this number is due. Numbers must not decrease.
    #[inline]
    pub(crate) fn instant(&mut self, number: u64) -> u64 {
        self.rates.instant(number as f64, &mut self.piece)
    }

    /// Number of arrivals due by this time: the integral, corrected for rounding.
    pub(crate) fn count_by(&self, at_ns: u64) -> u64 {
        let due = |number: u64| self.rates.instant(number as f64, &mut 0) <= at_ns;
        let mut count = self.rates.integral(at_ns) as u64;
        while count > 0 && !due(count - 1) {
            count -= 1;
        }
        while due(count) {
            count += 1;
        }
        count
    }
}
