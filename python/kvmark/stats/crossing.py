"""Where a line through samples crosses zero, with Fieller's interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from kvmark.stats.estimate import CONFIDENCE, Estimate


def crossing(
    x: Sequence[float], y: Sequence[float], unit: str, confidence: float = CONFIDENCE
) -> Estimate | None:
    """The x at which a least-squares line through (x, y) is 0; none when it doesn't rise.

    Fieller's interval (Journal of the Royal Statistical Society B 16, 1954) holds every x at which
    a mean of 0 isn't refused; where the slope itself may be 0, it has no ends. So has one from two
    samples, which say nothing about their scatter.

    Raises:
        ValueError: the lengths differ.
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(xs) != len(ys):
        raise ValueError(f"each x needs a y: {len(xs)} and {len(ys)}")
    n, method = len(xs), "line through the runs, Fieller's interval"
    if n < 2 or np.ptp(xs) == 0:
        return None
    middle, spread = float(xs.mean()), float(((xs - xs.mean()) ** 2).sum())
    slope = float(((xs - middle) * ys).sum()) / spread
    if slope <= 0:
        return None
    value = middle - float(ys.mean()) / slope
    if n < 3:
        return Estimate(value, None, None, n, unit, method, confidence)
    residuals = ys - ys.mean() - slope * (xs - middle)
    variance = float(residuals @ residuals) / (n - 2)
    t = float(scipy.special.stdtrit(n - 2, 0.5 + confidence / 2))
    share = t**2 * variance / (slope**2 * spread)
    if share >= 1:
        return Estimate(value, None, None, n, unit, method, confidence)
    off = value - middle
    width = t * variance**0.5 / slope * ((1 - share) / n + off**2 / spread) ** 0.5
    low, high = ((off - width) / (1 - share), (off + width) / (1 - share))
    return Estimate(value, middle + low, middle + high, n, unit, method, confidence)
