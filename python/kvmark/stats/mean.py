"""Means and ratios of independent samples, with intervals from Student's t."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from kvmark.stats.estimate import CONFIDENCE, Estimate


def mean_interval(samples: Sequence[float], unit: str, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of independent samples with its t-interval; unbounded for a single sample.

    Raises:
        ValueError: there is no sample.
    """
    values = _array(samples)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, None, None, n, unit, "single value", confidence)
    error = float(values.std(ddof=1)) / n**0.5 * _t(n - 1, confidence)
    return Estimate(mean, mean - error, mean + error, n, unit, "mean, t-interval", confidence)


def two_stage_mean(first: Sequence[float], second: Sequence[float], unit: str) -> Estimate:
    """The mean of samples of which the scatter of the first few decided how many there are.

    The interval is Stein's, from the scatter of the first stage alone, or the ordinary one of all
    where that is wider: samples that happened to lie close together early make no claim of it.

    Raises:
        ValueError: the first stage has fewer than two samples.
    """
    if len(first) < 2:
        raise ValueError(f"a first stage needs at least two samples, not {len(first)}")
    plain = mean_interval([*first, *second], unit)
    early = float(_array(first).std(ddof=1)) / plain.n**0.5 * _t(len(first) - 1, CONFIDENCE)
    if plain.error is not None and plain.error >= early:
        return plain
    low, high = plain.value - early, plain.value + early
    return Estimate(plain.value, low, high, plain.n, unit, "mean, two stages, Stein", CONFIDENCE)


def paired_ratio(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """The geometric mean of candidate ÷ baseline over pairs measured together.

    Taking logarithms first makes the answer the same, inverted, when the sides are exchanged.

    Raises:
        ValueError: the lengths differ, there is no pair, or a value isn't above 0.
    """
    before, after = _logs(baseline), _logs(candidate)
    if len(before) != len(after):
        raise ValueError(f"pairs need equal lengths, not {len(before)} and {len(after)}")
    logs = mean_interval((after - before).tolist(), "", confidence)
    return _exponential(logs, "paired log-ratio, t-interval")


def unpaired_ratio(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """The ratio of the geometric means of two independent samples, by Welch's interval on logs.

    Raises:
        ValueError: a side is empty or has a value that isn't above 0.
    """
    before, after = _logs(baseline), _logs(candidate)
    difference = float(after.mean() - before.mean())
    n = len(before) + len(after)
    method = "unpaired log-ratio, Welch's interval"
    unbounded = Estimate(difference, None, None, n, "", method, confidence)
    if min(len(before), len(after)) < 2:
        return _exponential(unbounded, method)
    shares = [float(side.var(ddof=1)) / len(side) for side in (before, after)]
    if sum(shares) == 0:
        known = Estimate(difference, difference, difference, n, "", method, confidence)
        return _exponential(known, method)
    # The Welch-Satterthwaite equation.
    freedom = sum(shares) ** 2 / sum(
        share**2 / (len(side) - 1) for share, side in zip(shares, (before, after), strict=True)
    )
    error = sum(shares) ** 0.5 * _t(freedom, confidence)
    bounded = Estimate(
        difference, difference - error, difference + error, n, "", method, confidence
    )
    return _exponential(bounded, method)


def _exponential(logs: Estimate, method: str) -> Estimate:
    low = None if logs.low is None else float(np.exp(logs.low))
    high = None if logs.high is None else float(np.exp(logs.high))
    return Estimate(float(np.exp(logs.value)), low, high, logs.n, "ratio", method, logs.confidence)


def _array(samples: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("a mean needs at least one sample")
    return values


def _logs(samples: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = _array(samples)
    if not bool(np.all(values > 0)):
        raise ValueError("a ratio needs values above 0")
    return np.log(values)


def _t(freedom: float, confidence: float) -> float:
    return float(special.stdtrit(freedom, 0.5 + confidence / 2))
