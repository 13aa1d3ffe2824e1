"""Means and ratios of independent samples, with intervals from Student's t.

``floor`` is what the instrument can't tell apart, in the unit of the samples or, of a ratio, as a
share: samples that happen to be equal are not known any better than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from kvmark.stats.estimate import CONFIDENCE, Estimate
from kvmark.stats.level import paired_difference


def mean_interval(
    samples: Sequence[float], unit: str, confidence: float = CONFIDENCE, floor: float = 0.0
) -> Estimate:
    """The mean of independent samples with its t-interval; unbounded for a single sample.

    Raises:
        ValueError: there is no sample.
    """
    values = _array(samples)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, None, None, n, unit, "single value", confidence)
    error = max(float(values.std(ddof=1)) / n**0.5, floor) * _t(n - 1, confidence)
    return Estimate(mean, mean - error, mean + error, n, unit, "mean, t-interval", confidence)


def two_stage_mean(
    first: Sequence[float],
    second: Sequence[float],
    unit: str,
    confidence: float = CONFIDENCE,
    floor: float = 0.0,
) -> Estimate:
    """The mean of samples of which the scatter of the first few decided how many there are.

    The interval is Stein's, from the scatter of the first stage alone, or the ordinary one of all
    where that is wider: samples that happened to lie close together early make no claim of it.

    Raises:
        ValueError: the first stage has fewer than two samples.
    """
    if len(first) < 2:
        raise ValueError(f"a first stage needs at least two samples, not {len(first)}")
    plain = mean_interval([*first, *second], unit, confidence, floor)
    early = float(_array(first).std(ddof=1)) / plain.n**0.5 * _t(len(first) - 1, confidence)
    if plain.error is not None and plain.error >= early:
        return plain
    low, high = plain.value - early, plain.value + early
    return Estimate(plain.value, low, high, plain.n, unit, "mean, two stages, Stein", confidence)


def paired_ratio(
    baseline: Sequence[float],
    candidate: Sequence[float],
    confidence: float = CONFIDENCE,
    floor: float = 0.0,
) -> Estimate:
    """The geometric mean of candidate ÷ baseline over pairs measured together.

    Taking logarithms first makes the answer the same, inverted, when the sides are exchanged.

    Raises:
        ValueError: the lengths differ, there is no pair, or a value isn't above 0.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"pairs need equal lengths, not {len(baseline)} and {len(candidate)}")
    if not all(value > 0 for value in (*baseline, *candidate)):
        raise ValueError("a ratio needs values above 0")
    logs = [math.log(after / before) for before, after in zip(baseline, candidate, strict=True)]
    return paired_difference(logs, confidence=confidence, floor=floor).ratio


def _array(samples: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("a mean needs at least one sample")
    return values


def _t(freedom: float, confidence: float) -> float:
    return float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2))
