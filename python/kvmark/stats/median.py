"""The median of independent values, with an interval that asks nothing of their distribution."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import scipy

from kvmark.stats.estimate import CONFIDENCE, Estimate

__all__ = ["median_interval"]

_METHOD: Final = "median, interval between two of the values"


def median_interval(
    values: Sequence[float], unit: str, confidence: float = CONFIDENCE
) -> Estimate | None:
    """The median and the two values between which it lies, by the sign test.

    How many values lie below the true median is binomial with one half (W. R. Thompson, Annals of
    Mathematical Statistics 7, 1936). Fewer than six values have no interval at 95 %.

    Returns:
        The estimate; none without a value.
    """
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    # The most values that may be left out at one end.
    left_out = sum(
        float(scipy.special.bdtr(below, n, 0.5)) <= (1 - confidence) / 2 for below in range(n // 2)
    )
    if not left_out:
        return Estimate.alone(median(ordered), unit, _METHOD, n)
    low, high = ordered[left_out - 1], ordered[n - left_out]
    return Estimate(median(ordered), low, high, n, unit, _METHOD)
