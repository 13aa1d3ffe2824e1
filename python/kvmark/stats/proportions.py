"""Counts of kinds against the proportions they should have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special


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
    p_value = float(special.chdtrc(int(expected.sum()) - 1, statistic))
    return MixTest(p_value, deviation, n)
