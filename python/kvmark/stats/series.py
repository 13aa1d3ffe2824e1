"""Values in the order of time: the mean of correlated ones, its error, drift and warm-up.

Intervals of one run show variation within the run, not between runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.counts import Counts
from kvmark.stats.estimate import CONFIDENCE, Estimate, t_quantile
from kvmark.stats.level import Level

#: The least number of values of an error: with fewer no method has its stated coverage.
LEAST_INTERVALS: Final = 25

# More contrasts make an interval hardly narrower, and a slow wave of the series break it.
_CONTRASTS: Final = (2, 12)
# Independent observations per contrast: with fewer, the contrasts cover frequencies at which a
# correlated series has less power than in its mean.
_WORTH: Final = 7.0
# The part of the error level for Student's t. The rest is for the power that the slowest contrasts
# lack. `scripts/interval_coverage.py` shows the coverage with these four constants.
_STUDENTS: Final = 0.8

# All pairs are compared, so neighbours of a longer series are averaged first.
_MOST_POINTS = 512

_RATE: Final = "rate of one run, t-interval of its intervals' slow cosines"
_QUANTILE: Final = "quantile of one run, by the share below it in its intervals"
# The part of the error level that remains after repeated looks.
_LOOKED: Final = 0.7
_BEYOND: Final = "no interval: it would reach beyond what was observed"

_LEAST_FREEDOM = 5
_LEAST_WEIGHT = 0.25
_LARGEST_PART = 0.5
"""The largest share of one case in the evidence."""

_TWO_PAIRS = 4


@dataclass(frozen=True, slots=True)
class MeanError:
    """The standard error of a series' mean, and the degrees of freedom of that error.

    It is raised slightly, so that its Student interval has the stated coverage.
    """

    stderr: float
    freedom: int

    def critical(self) -> float:
        """The half width of the interval in standard errors."""
        return t_quantile(self.freedom)

    def raised(self, share: float) -> Self:
        """The same with an interval at a part of the error level."""
        reach = t_quantile(self.freedom, 1 - (1 - CONFIDENCE) / 2 * share) / self.critical()
        return type(self)(self.stderr * reach, self.freedom)


def mean_error(series: Sequence[float] | NDArray[np.float64]) -> MeanError | None:
    """The error of the mean of a series with correlated neighbours.

    The series is projected on a few slow cosines, each orthogonal to the mean: its power at the
    lowest frequencies determines the error of the mean. The mean square of k projections has k
    degrees of freedom, and the mean over it is Student's t (Müller, A Theory of Robust Long-Run
    Variance Estimation, 2007; Lazarus, Lewis, Stock and Watson, HAR Inference, 2018). A smaller
    effective sample size means fewer cosines. None with fewer than :data:`LEAST_INTERVALS` values.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n < LEAST_INTERVALS:
        return None
    fewest, most = _CONTRASTS
    count = int(min(max(effective_sample_size(values) // _WORTH, fewest), most))
    places = (np.arange(n) + 0.5) * np.pi / n
    waves = np.cos(np.outer(np.arange(1, count + 1), places))
    # Each wave has the sum of squares n / 2.
    powers = (waves @ (values - values.mean())) ** 2 * 2 / n
    return MeanError(float((powers.mean() / n) ** 0.5), count).raised(_STUDENTS)


def effective_sample_size(series: Sequence[float] | NDArray[np.float64]) -> float:
    """The number of independent observations with equal information, at least 1.

    n ÷ τ, where τ is the integrated autocorrelation time by Geyer's initial monotone positive
    sequence (Practical Markov Chain Monte Carlo, 1992): sums of neighbouring autocorrelations are
    added while they are positive and do not rise. The result is at most the length of the series,
    also with negative correlation.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n < 4 or np.ptp(values) == 0:
        return float(n)
    centred = values - values.mean()
    # Padded to twice its length, to avoid circular correlation.
    spectrum = np.fft.rfft(centred, 2 * n)
    covariances = np.fft.irfft(spectrum * spectrum.conj(), 2 * n)[:n]
    correlations = covariances / covariances[0]
    even = n // 2 * 2
    pairs = correlations[0:even:2] + correlations[1:even:2]
    ends = np.flatnonzero(pairs <= 0)
    positive = pairs[: ends[0]] if len(ends) else pairs
    tau = 2 * float(np.minimum.accumulate(positive).sum()) - 1 if len(positive) else 1.0
    return min(float(n), max(1.0, n / max(tau, 1.0)))


@dataclass(frozen=True, slots=True)
class Drift:
    """``change`` is the increase over the whole series as a share of its median (0.1 is 10 %)."""

    change: float
    p_value: float
    n: int


def drift(series: Sequence[float]) -> Drift:
    """Theil-Sen's slope for the size and the Mann-Kendall test for the significance.

    Both are robust against single stalls. Because neighbouring intervals are correlated, the test's
    variance is enlarged by n ÷ effective sample size of the residuals (Yue and Wang, Water
    Resources Management 18, 2004).

    Raises:
        ValueError: fewer than four values.
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) > _MOST_POINTS:
        values = np.array([part.mean() for part in np.array_split(values, _MOST_POINTS)])
    n = len(values)
    if n < 4:
        raise ValueError(f"a drift needs at least four values, not {n}")
    first, second = np.triu_indices(n, k=1)
    increases = values[second] - values[first]
    slope = float(np.median(increases / (second - first)))
    median = float(np.median(values))
    change = slope * (n - 1) / abs(median) if median else 0.0
    residuals = values - slope * np.arange(n)
    inflation = n / effective_sample_size(residuals)
    return Drift(change, _mann_kendall(increases, values, inflation), len(series))


def _mann_kendall(
    increases: NDArray[np.float64], values: NDArray[np.float64], inflation: float
) -> float:
    n = len(values)
    score = float(np.sign(increases).sum())
    ties = np.unique(values, return_counts=True)[1].astype(np.float64)
    tied = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    variance = (n * (n - 1) * (2 * n + 5) - tied) / 18 * inflation
    if variance <= 0 or score == 0:
        return 1.0
    # One step towards zero, since the score moves in steps.
    z = (abs(score) - 1) / variance**0.5
    return float(min(1.0, 2 * scipy.special.ndtr(-z)))


def rate_of_intervals(
    value: float, rates: Sequence[float], floor: float = 0.0, *, until_known: bool = False
) -> Level:
    """The rate of one run, with the error of the mean of its intervals' rates.

    ``value`` is the rate of the whole run, partial intervals included. ``until_known`` states that
    the run ended at a precision of its rate: that can happen by chance, so the error is slightly
    larger. Too few intervals give no error.

    Raises:
        ValueError: the value isn't above 0.
    """
    if not value > 0:
        raise ValueError("a level needs a rate above 0")
    error, n = mean_error(rates), len(rates)
    if error is None or not any(rates):
        return _unknown(math.log(value), n, floor)
    if until_known:
        error = error.raised(_LOOKED)
    stderr = error.stderr / (math.fsum(rates) / n)
    return _level(math.log(value), stderr, error, n, _RATE, floor)


def quantile_of_intervals(parts: Sequence[Counts], q: float, step: float = 0.0) -> Level | None:
    """The quantile of one run, with its error from the share of operations below it by interval.

    That share is the mean of a correlated series and has its error. The interval of the quantile
    lies between the quantiles at the ends of the share's interval, on the scale of its logit
    (Woodruff, Confidence Intervals for Medians and Other Position Measures, 1952). ``step`` is that
    of the clock. None without observations.
    """
    whole = Counts.merge(parts)
    value = whole.quantile(q)
    if value is None:
        return None
    log, floor = math.log(max(value, 1)), whole.resolution(q, step)
    sizes = np.array([part.n for part in parts], dtype=np.float64)
    below = np.array([part.count[part.high <= value].sum() for part in parts], dtype=np.float64)
    error = mean_error(below - below.sum() / whole.n * sizes)
    if error is None:
        return _unknown(log, len(parts), floor)
    half = error.critical() * error.stderr / float(sizes.mean()) / (q * (1 - q))
    least, most = scipy.special.expit(scipy.special.logit(q) + np.array([-half, half])).tolist()
    if not (least * whole.n >= 1 and (1 - most) * whole.n >= 1):
        return _unknown(log, len(parts), floor, _BEYOND)
    low, high = (math.log(max(whole.quantile(share) or 1, 1)) for share in (least, most))
    stderr = max(high - log, log - low) / error.critical()
    return _level(log, stderr, error, len(parts), _QUANTILE, floor)


def _level(log: float, stderr: float, error: MeanError, n: int, method: str, floor: float) -> Level:
    units = error.freedom + 1.0
    return Level(log, stderr * units**0.5, units, False, method, floor, n)


def _unknown(log: float, n: int, floor: float, why: str = "") -> Level:
    few = f"no interval: {n} of the {LEAST_INTERVALS} intervals that an error needs"
    return Level(log, None, 1.0, False, why or few, floor, n)


@dataclass(frozen=True, slots=True)
class Placed:
    """A value above 0 with its case, its repetition, and its place after a start, from 1."""

    case: str
    repetition: int
    place: int
    value: float


def warming(values: Sequence[Placed]) -> Estimate | None:
    """The log-ratio of the first value after a start to a later one.

    The effect is assumed to halve with each place: log value = case + repetition + effect ·
    2^(1 - place), by least squares. An effect of -0.7 halves the first value. The interval allows
    for values of unequal scatter (HC3: J. G. MacKinnon, H. White, Journal of Econometrics 29,
    1985).

    Returns:
        The effect; none if the places of the cases are too similar, or one case dominates.
    """
    cases = [one.case for one in values]
    known = [one for one in values if cases.count(one.case) > 1]
    if not known:
        return None
    in_case = _indicators([one.case for one in known])
    factors = np.hstack([in_case, _indicators([str(one.repetition) for one in known])])
    # Projects on what cases and repetitions explain.
    hat = factors @ np.linalg.pinv(factors, rtol=1e-9)
    x, y = (
        series - hat @ series
        for series in (
            np.array([2.0 ** (1 - one.place) for one in known]),
            np.log([one.value for one in known]),
        )
    )
    freedom, weight = len(known) - round(float(hat.trace())) - 1, float(x @ x)
    is_dominated = float((x**2 @ in_case).max()) > _LARGEST_PART * weight
    if freedom < _LEAST_FREEDOM or weight < _LEAST_WEIGHT or is_dominated:
        return None
    effect = float(x @ y) / weight
    leverage = hat.diagonal() + x**2 / weight
    left = (y - effect * x) / np.maximum(1 - leverage, 1e-9)
    error = math.sqrt(float((x**2) @ (left**2))) / weight
    wide = error * t_quantile(freedom)
    method = "least squares within cases and repetitions, HC3"
    return Estimate(effect, effect - wide, effect + wide, len(known), "", method)


def _indicators(labels: Sequence[str]) -> NDArray[np.float64]:
    """A column of ones and zeros for each label."""
    column = np.array(labels)[:, None]
    columns: NDArray[np.float64] = (column == np.unique(column)).astype(np.float64)
    return columns


def warmup_gain(speeds: Sequence[float]) -> float | None:
    """The gain of the last two values over the best two neighbours before, as a share of means.

    Args:
        speeds: above 0, in order.

    Returns:
        Negative if they were faster before; none for fewer than four values.
    """
    pairs = [one + next_one for one, next_one in pairwise(speeds)]
    # The last pair but one shares a value with the last.
    return pairs[-1] / max(pairs[:-2]) - 1 if len(speeds) >= _TWO_PAIRS else None
