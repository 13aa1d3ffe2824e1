"""Counts by value range, and their quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: A quantile is shown only when at least so many observations are expected beyond it.
OBSERVATIONS_BEYOND = 10

#: Larger than every observation: what stands for one that never came, such as a failed operation.
BEYOND = 2**62

_MERGED_AT_ONCE = 16

# A product such as 0.07 * 100 lies a hair above the integer it means.
_HAIR = 1 - 2**-50


@dataclass(frozen=True, eq=False)
class Counts:
    """How often a value fell between ``low`` and ``high``, both inclusive, by rising ``low``.

    Only ranges with a count above 0 are kept.
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
        """Each value in a range of its own."""
        distinct, count = np.unique(np.fromiter(values, dtype=np.int64), return_counts=True)
        return cls(distinct, distinct, count.astype(np.int64))

    @classmethod
    def merge(cls, parts: Iterable[Counts]) -> Counts:
        """All observations of the parts together."""
        parts = [part for part in parts if len(part.count)]
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        if len(parts) > _MERGED_AT_ONCE:
            # Many parts concatenated at once would take several times the memory of the result.
            some = range(0, len(parts), _MERGED_AT_ONCE)
            return cls.merge([cls.merge(parts[at : at + _MERGED_AT_ONCE]) for at in some])
        low, high, count = (
            np.concatenate(columns)
            for columns in zip(*((part.low, part.high, part.count) for part in parts), strict=True)
        )
        order = np.lexsort((high, low))
        low, high, count = low[order], high[order], count[order]
        new = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
        return cls(low[new], high[new], np.add.reduceat(count, new))

    def with_beyond(self, count: int) -> Counts:
        """The same with so many observations more, each larger than any bound."""
        if not count:
            return self
        one, many = np.array([BEYOND], dtype=np.int64), np.array([count], dtype=np.int64)
        return Counts.merge([self, Counts(one, one, many)])

    @cached_property
    def n(self) -> int:
        """Number of observations."""
        return int(self.count.sum())

    @cached_property
    def _reached(self) -> NDArray[np.int64]:
        """Number of observations up to the end of each range."""
        return np.cumsum(self.count)

    def mean(self) -> float | None:
        """The mean, each observation taken at the middle of its range; none without any."""
        if self.n == 0:
            return None
        middles = (self.low.astype(np.float64) + self.high) / 2
        return float((middles * self.count).sum() / self.n)

    def deviation(self) -> float | None:
        """The standard deviation, taken as the mean is; none without any observation."""
        mean = self.mean()
        if mean is None:
            return None
        middles = (self.low.astype(np.float64) + self.high) / 2
        return float((((middles - mean) ** 2 * self.count).sum() / self.n) ** 0.5)

    def quantile(self, q: float) -> int | None:
        """The smallest bound that at least a share ``q`` of the observations doesn't exceed."""
        n = self.n
        if n == 0:
            return None
        return int(self.high[self._place(max(1, math.ceil(q * n * _HAIR)))])

    def resolution(self, q: float, step: float = 0.0) -> float:
        """How far a quantile is known at best, as a share of it: half the width of its range.

        Or ``step``, in the unit of the values, where that is more: the step of their clock.
        """
        if self.n == 0:
            return 0.0
        place = self._place(max(1, math.ceil(q * self.n * _HAIR)))
        low, high = int(self.low[place]), int(self.high[place])
        return max((high - low + 1) / 2, step) / max(high, 1)

    def shows(self, q: float) -> bool:
        """Whether there are enough observations beyond the quantile to show it."""
        return self.n >= least_observations(q)

    def _place(self, rank: int) -> int:
        return int(np.searchsorted(self._reached, rank))


def least_observations(q: float) -> int:
    """The smallest n with n * (1 - q) >= 10: with fewer beyond it, a quantile is a few outliers.

    With ten expected beyond it their number scatters by a third; p50 needs 20 observations, p95
    200, p99 1000, p999 10,000. At q = 1 one observation is enough: the maximum is what it is.
    """
    if q >= 1:
        return 1
    # Rounded, since 1 - 0.99 is a hair above 0.01.
    return max(1, math.ceil(round(OBSERVATIONS_BEYOND / (1 - q), 6)))
