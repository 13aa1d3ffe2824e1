"""Distributions: Zipf's law of popularity, proportions of kinds, and summaries of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

_SUMMED: Final = 100_000
_LARGEST_THETA: Final = 4.0
_PERCENTILES: Final = (1, 5, 10, 90, 95, 99)
_ROUNDS: Final = 200
_TOLERATED: Final = 0.3
_AGAIN: Final = 100
"""The fewest repetitions that show the number of items."""
_RARE: Final = 0.01
"""With a smaller share of items that were drawn once, hardly any was never drawn."""


@dataclass(frozen=True, slots=True)
class ZipfFit:
    """Items whose weights fall as rank^-theta."""

    theta: float
    off: float
    """The largest difference of the cumulative shares, law and counts, at any rank (Kolmogorov and
    Smirnov's distance)."""


def fit_zipf(counts: Sequence[int], sampled: float = 1.0) -> ZipfFit | None:
    """The most likely zipfian law of counts, largest first; None for fewer than two items.

    If the items are a sample, `sampled` is its share, and ranks are farther apart by its inverse.
    """
    if len(counts) < 2 or counts[0] == 0:
        return None
    weights = np.asarray(counts, dtype=np.float64)
    ranks = np.maximum(1.0, np.arange(1, len(counts) + 1) / sampled)
    logs, total = float(np.sum(weights * np.log(ranks))), float(weights.sum())

    def unlikelihood(theta: float) -> float:
        return theta * logs + total * float(np.log(_generalised_harmonic(ranks[-1:], theta)[0]))

    # The likelihood has one maximum.
    theta = float(
        scipy.optimize.minimize_scalar(
            unlikelihood, bounds=(0.0, _LARGEST_THETA), method="bounded", options={"xatol": 1e-9}
        ).x
    )
    sums = _generalised_harmonic(ranks, theta)
    return ZipfFit(theta, float(np.max(np.abs(np.cumsum(weights) / total - sums / sums[-1]))))


@dataclass(frozen=True, slots=True)
class GaussianFit:
    """Items whose weights fall on both sides of a middle as a normal distribution's do."""

    deviation: float
    """The standard deviation, in items."""
    off: float
    """As of a `ZipfFit`."""


def fit_gaussian(counts: Sequence[int], sampled: float = 1.0) -> GaussianFit | None:
    """The most likely normal law of counts, largest first; None for fewer than two items.

    Two items are at each distance from the middle, so that ranks have half a normal distribution
    with twice the deviation. `sampled` is as of `fit_zipf`.
    """
    if len(counts) < 2 or counts[0] == 0:
        return None
    weights = np.asarray(counts, dtype=np.float64)
    ranks = np.arange(1, len(counts) + 1) / sampled
    spread = float(np.sqrt(weights @ ranks**2 / weights.sum()))
    sums = scipy.special.erf(ranks / (spread * 2**0.5))
    shares = np.cumsum(weights) / weights.sum()
    return GaussianFit(spread / 2, float(np.max(np.abs(shares - sums / sums[-1]))))


def zipf_top_share(count: int, theta: float) -> float:
    """The share of the first of `count` items whose weights are 1, 2^-theta, 3^-theta, …."""
    if count < 1:
        return 0.0
    return float(1 / _generalised_harmonic(np.array([float(count)]), theta)[0])


def _generalised_harmonic(ranks: NDArray[np.float64], theta: float) -> NDArray[np.float64]:
    """The sums of 1, 2^-theta, …, rank^-theta.

    The terms after the first 100,000 are summed by Euler and Maclaurin's formula, whose error is
    far below a millionth.
    """
    summed = np.cumsum(np.arange(1, _SUMMED + 1, dtype=np.float64) ** -theta)
    first = float(_SUMMED)
    far = np.maximum(ranks, first)
    area = (
        np.log(far / first)
        if abs(theta - 1) < 1e-9
        else ((far ** (1 - theta) - first ** (1 - theta)) / (1 - theta))
    )
    beyond = summed[-1] + area + (far**-theta - first**-theta) / 2
    near = summed[np.minimum(ranks, first).astype(np.int64) - 1]
    return np.where(ranks <= first, near, beyond)


@dataclass(frozen=True, slots=True)
class Population:
    """Items that were drawn with repetitions."""

    spread: Literal["one", "once", "in turn", "even", "uneven"]
    """One item, or each at most once; all equally often, as by chance alone, or some more often."""
    size: float | None
    """The number of items, drawn or not; None if the draws don't show it."""


def fit_population(counts: Sequence[int], sampled: float = 1.0) -> Population | None:
    """The items behind the draws of each item that was drawn at all; None without draws.

    If each item is equally likely, the counts above 0 have a Poisson distribution without its 0.
    Its rate follows from their mean, and its variance is compared with theirs. If the items are a
    sample, `sampled` is its share.
    """
    drawn = np.asarray(counts, dtype=np.float64)
    if len(drawn) < 2:
        return Population("one", 1.0) if len(drawn) else None
    mean, size, again = float(drawn.mean()), len(drawn) / sampled, float((drawn - 1).sum())
    if drawn.min() == drawn.max():
        return Population("in turn", size) if mean > 1 else Population("once", None)
    rate = mean
    for _ in range(_ROUNDS):
        rate = mean * -float(np.expm1(-rate))
    excess = float(drawn.var()) / (mean * (1 + rate - mean)) - 1
    by_chance = _TOLERATED + 3 * (2 / len(drawn) + 1 / again) ** 0.5
    if excess < max(-0.9, -by_chance):
        return Population("in turn", size if mean > 1.5 else None)
    if excess <= by_chance:
        return Population("even", size / -float(np.expm1(-rate)) if again >= _AGAIN else None)
    return Population("uneven", size if np.mean(drawn == 1) < _RARE else None)


@dataclass(frozen=True, slots=True)
class MixTest:
    """``deviation`` is the largest difference between a share and its expected share."""

    p_value: float
    deviation: float


def mix_test(counts: Sequence[int], weights: Sequence[float]) -> MixTest:
    """Pearson's chi-square test of counts against relative weights.

    If a kind of weight 0 was counted, p is 0.

    Raises:
        ValueError: the lengths differ, nothing was counted, or no weight is above 0.
    """
    observed = np.asarray(counts, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    if len(observed) != len(shares) or observed.sum() <= 0 or shares.sum() <= 0:
        raise ValueError("a mix needs a weight per kind, something counted and a weight above 0")
    shares = shares / shares.sum()
    n = int(observed.sum())
    deviation = float(np.abs(observed / n - shares).max())
    expected = shares > 0
    if observed[~expected].any():
        return MixTest(0.0, deviation)
    if expected.sum() < 2:
        return MixTest(1.0, deviation)
    due = shares[expected] * n
    statistic = float(((observed[expected] - due) ** 2 / due).sum())
    return MixTest(float(scipy.special.chdtrc(int(expected.sum()) - 1, statistic)), deviation)


def rise_of_share(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> float:
    """The probability of an increase at least as large if both sides have the same share.

    Each sample is a run: the number of its observations with a property, and of all. With two or
    more runs on each side the error is that between runs (Welch's test), but not smaller than that
    of independent observations.

    Raises:
        ValueError: a side has no observation.
    """
    sides = [np.asarray(side, dtype=np.float64).reshape(-1, 2) for side in (before, after)]
    totals = [side.sum(axis=0) for side in sides]
    if not all(total[1] > 0 for total in totals):
        raise ValueError("a share needs observations on both sides")
    (had, n), (has, m) = totals
    pooled = (had + has) / (n + m)
    least = float(pooled * (1 - pooled) * (1 / n + 1 / m))
    rise = float(has / m - had / n)
    shares = [side[:, 0] / np.maximum(side[:, 1], 1) for side in sides]
    parts = [float(each.var(ddof=1)) / len(each) for each in shares if len(each) > 1]
    variance, freedom = sum(parts), np.inf
    if len(parts) == len(sides) and variance > least:
        below = sum(p**2 / (len(each) - 1) for p, each in zip(parts, shares, strict=True))
        freedom = variance**2 / below
    else:
        variance = least
    return float(scipy.special.stdtr(freedom, -rise / variance**0.5)) if variance else 0.5


@dataclass(frozen=True, slots=True)
class Spread:
    """Eleven numbers, as published tables of intervals have them, in the unit of the values."""

    n: int
    mean: float
    min: float
    max: float
    #: Of the sample, divided by n - 1; 0 for a single value.
    stddev: float
    median: float
    p1: float
    p5: float
    p10: float
    p90: float
    p95: float
    p99: float


def spread(values: Sequence[float]) -> Spread | None:
    """The eleven numbers; None without values.

    A percentile has the rank p (n + 1), interpolated between two ranks. Ranks outside the values
    mean the nearest value, so that the first percentile of fewer than 99 values is the smallest.
    """
    if not values:
        return None
    median, *others = np.percentile(values, (50, *_PERCENTILES), method="weibull").tolist()
    return Spread(
        n=len(values),
        mean=fmean(values),
        min=min(values),
        max=max(values),
        stddev=stdev(values) if len(values) > 1 else 0.0,
        median=median,
        **{f"p{percent}": value for percent, value in zip(_PERCENTILES, others, strict=True)},
    )
