"""A number that travels with its error, its n and its unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

#: Coverage of every interval unless said otherwise.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval. One is made in this package only.

    ``low`` and ``high`` are none when the data can't bound the value: one sample, or too few
    independent ones. ``n`` is the number of samples, ``method`` names how the interval was made,
    or why there is none.
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
        """A value without an interval; ``method`` says why."""
        return cls(value, None, None, n, unit, method)

    @property
    def error(self) -> float | None:
        """Half the width of the interval, in the unit of the value."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @property
    def relative_error(self) -> float | None:
        """The error as a share of the value; none when either is unknown or the value is 0."""
        if self.error is None or self.value == 0:
            return None
        return self.error / abs(self.value)

    def put(self, function: Callable[[float], float], unit: str) -> Self:
        """The same in other terms: a function that rises, or falls, of value and bounds."""
        if self.low is None or self.high is None:
            return replace(self, value=function(self.value), low=None, high=None, unit=unit)
        low, high = sorted((function(self.low), function(self.high)))
        return replace(self, value=function(self.value), low=low, high=high, unit=unit)
