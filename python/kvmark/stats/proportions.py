"""Counts of kinds against the proportions they should have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy


@dataclass(frozen=True, slots=True)
class MixTest:
    """``deviation`` is the largest difference between a share and the share it should have."""

    p_value: float
    deviation: float
    n: int


def mix_test(counts: Sequence[int], weights: Sequence[float]) -> MixTest:
    """Pearson's chi-square test of counts against relative weights.

    A kind of weight 0 that was counted all the same can't be chance: p is 0.

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
        return MixTest(0.0, deviation, n)
    if expected.sum() < 2:
        return MixTest(1.0, deviation, n)
    due = shares[expected] * n
    statistic = float(((observed[expected] - due) ** 2 / due).sum())
    p_value = float(scipy.special.chdtrc(int(expected.sum()) - 1, statistic))
    return MixTest(p_value, deviation, n)


def rise_of_share(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> float:
    """The probability of a rise at least so large when a share is the same on both sides.

    Each sample is a run: how many of its observations have a property, and how many there are. With
    two runs or more on each side the error is that between runs (Welch's test); no error is smaller
    than that of independent observations.

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
    if variance == 0:
        return 0.5
    return float(scipy.special.stdtr(freedom, -rise / variance**0.5))
