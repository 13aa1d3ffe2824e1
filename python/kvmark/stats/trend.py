"""Whether a series moves: the size of its drift and whether chance explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.series import effective_sample_size

# All pairs are compared, so a longer series is averaged over neighbours first.
_MOST_POINTS = 512


@dataclass(frozen=True, slots=True)
class Drift:
    """``change`` is the rise over the whole series as a share of its median (0.1 is 10 %)."""

    change: float
    p_value: float
    n: int


def drift(series: Sequence[float]) -> Drift:
    """Theil-Sen's slope for the size and the Mann-Kendall test for the significance.

    Both are robust against single stalls. The test's variance is enlarged by n ÷ effective sample
    size of what is left without the slope (Yue and Wang, Water Resources Management 18, 2004),
    because neighbouring intervals resemble each other.

    Raises:
        ValueError: fewer than four values.
    """
    values = _condensed(np.asarray(series, dtype=np.float64))
    n = len(values)
    if n < 4:
        raise ValueError(f"a drift needs at least four values, not {n}")
    first, second = np.triu_indices(n, k=1)
    rises = values[second] - values[first]
    slope = float(np.median(rises / (second - first)))
    median = float(np.median(values))
    change = slope * (n - 1) / abs(median) if median else 0.0
    residuals = values - slope * np.arange(n)
    inflation = n / effective_sample_size(residuals)
    return Drift(change, _mann_kendall(rises, values, inflation), len(series))


def _mann_kendall(
    rises: NDArray[np.float64], values: NDArray[np.float64], inflation: float
) -> float:
    n = len(values)
    score = float(np.sign(rises).sum())
    ties = np.unique(values, return_counts=True)[1].astype(np.float64)
    tied = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    variance = (n * (n - 1) * (2 * n + 5) - tied) / 18 * inflation
    if variance <= 0 or score == 0:
        return 1.0
    # One step towards zero, since the score moves in steps.
    z = (abs(score) - 1) / variance**0.5
    return float(min(1.0, 2 * scipy.special.ndtr(-z)))


def _condensed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(values) <= _MOST_POINTS:
        return values
    return np.array([part.mean() for part in np.array_split(values, _MOST_POINTS)])
