"""Counts by value range, and their quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: The least number of expected observations beyond a quantile that is shown.
OBSERVATIONS_BEYOND = 10

#: Larger than every observation: the value of failed operations, which have no time.
BEYOND = 2**62

_MERGED_AT_ONCE = 16

# Corrects products such as 0.07 * 100, which is slightly above 7.
ROUNDING = 1 - 2**-50


@dataclass(frozen=True, eq=False)
class Counts:
    """Numbers of values between ``low`` and ``high``, both inclusive, sorted by ``low``.

    Ranges have a count above 0.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Counts:
        """No observation."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none)

    @classmethod
    def of(cls, values: Iterable[int]) -> Counts:
        """Each value as its own range."""
        distinct, count = np.unique(np.fromiter(values, dtype=np.int64), return_counts=True)
        return cls(distinct, distinct, count.astype(np.int64))

    @classmethod
    def rounded(cls, values: NDArray[np.int64]) -> Counts:
        """Values from 0 on in ranges of three digits."""
        digits = np.floor(np.log10(np.maximum(values, 1))).astype(np.int64) - 2
        step = 10 ** np.maximum(digits, 0)
        low, place, count = np.unique(values // step * step, return_index=True, return_counts=True)
        return cls(low, low + step[place] - 1, count.astype(np.int64))

    @classmethod
    def merge(cls, parts: Iterable[Counts]) -> Counts:
        """All observations of the parts."""
        parts = [part for part in parts if len(part.count)]
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        if len(parts) > _MERGED_AT_ONCE:
            # Concatenating many parts would need several times the memory of the result.
            starts = range(0, len(parts), _MERGED_AT_ONCE)
            return cls.merge([cls.merge(parts[at : at + _MERGED_AT_ONCE]) for at in starts])
        low, high, count = (
            np.concatenate(columns)
            for columns in zip(*((part.low, part.high, part.count) for part in parts), strict=True)
        )
        order = np.lexsort((high, low))
        low, high, count = low[order], high[order], count[order]
        new = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
        return cls(low[new], high[new], np.add.reduceat(count, new))

    def with_beyond(self, count: int) -> Counts:
        """The counts and ``count`` more observations, larger than any limit."""
        if not count:
            return self
        value, counts = np.array([BEYOND], dtype=np.int64), np.array([count], dtype=np.int64)
        return Counts.merge([self, Counts(value, value, counts)])

    @cached_property
    def n(self) -> int:
        """Number of observations."""
        return int(self.count.sum())

    def mean(self) -> float | None:
        """The mean of the middles of ranges; none without observations."""
        return float((self._middles * self.count).sum() / self.n) if self.n else None

    def deviation(self) -> float | None:
        """The standard deviation of the middles of ranges; none without observations."""
        mean = self.mean()
        if mean is None:
            return None
        return float((((self._middles - mean) ** 2 * self.count).sum() / self.n) ** 0.5)

    @property
    def _middles(self) -> NDArray[np.float64]:
        return (self.low.astype(np.float64) + self.high) / 2

    def quantile(self, q: float) -> int | None:
        """The smallest end of a range that at least a share ``q`` of observations don't exceed."""
        return int(self.high[self._place(q)]) if self.n else None

    def resolution(self, q: float, step: float = 0.0) -> float:
        """The resolution of a quantile as a share of it: half the width of its range.

        At least ``step``, the step of the clock in the unit of the values.
        """
        if self.n == 0:
            return 0.0
        place = self._place(q)
        low, high = int(self.low[place]), int(self.high[place])
        return max((high - low + 1) / 2, step) / max(high, 1)

    def shows(self, q: float) -> bool:
        """Whether the quantile has enough observations beyond it to be shown."""
        return self.n >= least_observations(q)

    def _place(self, q: float) -> int:
        rank = max(1, math.ceil(q * self.n * ROUNDING))
        return int(np.searchsorted(np.cumsum(self.count), rank))


def least_observations(q: float) -> int:
    """The smallest n with n * (1 - q) >= 10: with fewer, a quantile depends on a few outliers.

    The number of observations beyond a quantile scatters by a third if ten are expected. p50 needs
    20 observations, p95 200, p99 1000, p999 10,000, and the maximum one.
    """
    # Rounded, since 1 - 0.99 is slightly above 0.01.
    return 1 if q >= 1 else max(1, math.ceil(round(OBSERVATIONS_BEYOND / (1 - q), 6)))
