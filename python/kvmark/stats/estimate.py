"""A number with its error, its n and its unit; and some ways to make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Self

import numpy as np
import scipy

#: The default coverage of intervals.
CONFIDENCE = 0.95

_MEDIAN_METHOD: Final = "median, interval between two of the values"


def t_quantile(freedom: float, share: float = 0.5 + CONFIDENCE / 2) -> float:
    """A quantile of Student's t; by default the half width of an interval in standard errors."""
    return float(scipy.special.stdtrit(freedom, share))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval. Only this package makes intervals.

    ``low`` and ``high`` are none if the data can't bound the value: one sample, or too few
    independent ones. ``n`` is the number of samples, ``method`` the method of the interval, or the
    reason why there is none.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    unit: str
    method: str
    confidence: float = CONFIDENCE

    @classmethod
    def alone(cls, value: float, unit: str, method: str, n: int = 1) -> Self:
        """A value without an interval; ``method`` is the reason."""
        return cls(value, None, None, n, unit, method)

    @property
    def error(self) -> float | None:
        """Half the width of the interval, in the unit of the value."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def relative_error(self) -> float | None:
        """The error as a share of the value; none if it is unknown or the value is 0."""
        return None if self.error is None or self.value == 0 else self.error / abs(self.value)

    def put(self, function: Callable[[float], float], unit: str) -> Self:
        """A monotonic function of the value and its bounds."""
        low = high = None
        if self.low is not None and self.high is not None:
            low, high = sorted((function(self.low), function(self.high)))
        return replace(self, value=function(self.value), low=low, high=high, unit=unit)


def keeps_within(
    low: float | None, high: float | None, limit: float, *, most: bool = True
) -> bool | None:
    """Whether the whole interval satisfies a limit; false if the whole interval violates it.

    None if the interval contains the limit, or there is none. With ``most`` the limit is an upper
    one, else a lower one.
    """
    if low is None or high is None:
        return None
    if not most:
        low, high, limit = -high, -low, -limit
    if high <= limit:
        return True
    return False if low > limit else None


def median_interval(values: Sequence[float], unit: str) -> Estimate | None:
    """The median and two of the values as its interval, by the sign test.

    The number of values below the true median is binomial with one half (W. R. Thompson, Annals of
    Mathematical Statistics 7, 1936). Fewer than six values have no interval at 95 %.

    Returns:
        The estimate; none without values.
    """
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    # The number of values outside the interval at each end.
    left_out = sum(
        float(scipy.special.bdtr(below, n, 0.5)) <= (1 - CONFIDENCE) / 2 for below in range(n // 2)
    )
    if not left_out:
        return Estimate.alone(median(ordered), unit, _MEDIAN_METHOD, n)
    low, high = ordered[left_out - 1], ordered[n - left_out]
    return Estimate(median(ordered), low, high, n, unit, _MEDIAN_METHOD)


def crossing(x: Sequence[float], y: Sequence[float], unit: str) -> Estimate | None:
    """The x at which a least-squares line through (x, y) is 0; none unless the line rises.

    Fieller's interval (Journal of the Royal Statistical Society B 16, 1954) contains every x at
    which a mean of 0 isn't rejected; if the slope itself may be 0, it is unbounded. So is the
    interval of two samples, which don't show their scatter.

    Raises:
        ValueError: the lengths differ.
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(xs) != len(ys):
        raise ValueError(f"each x needs a y: {len(xs)} and {len(ys)}")
    n = len(xs)
    if n < 2 or np.ptp(xs) == 0:
        return None
    middle, spread = float(xs.mean()), float(((xs - xs.mean()) ** 2).sum())
    slope = float(((xs - middle) * ys).sum()) / spread
    if slope <= 0:
        return None
    value = middle - float(ys.mean()) / slope
    unbounded = Estimate.alone(value, unit, "line through the runs, Fieller's interval", n)
    if n < 3:
        return unbounded
    residuals = ys - ys.mean() - slope * (xs - middle)
    variance = float(residuals @ residuals) / (n - 2)
    t = t_quantile(n - 2)
    share = t**2 * variance / (slope**2 * spread)
    if share >= 1:
        return unbounded
    off = value - middle
    width = t * variance**0.5 / slope * ((1 - share) / n + off**2 / spread) ** 0.5
    low, high = (middle + (off + side * width) / (1 - share) for side in (-1, 1))
    return replace(unbounded, low=low, high=high)
