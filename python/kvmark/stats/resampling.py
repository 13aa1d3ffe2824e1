"""How sure a quantile of merged histograms is: from runs and from blocks.

Quantiles are never averaged: what is repeated to find the error is the merging. No error is
smaller than what the histograms, and the step of the clock that filled them, can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kvmark.stats.counts import Counts
from kvmark.stats.estimate import Estimate
from kvmark.stats.level import Effect, Level, mean_interval, paired_difference

# As in `Counts.quantile`: a product may lie a hair above the integer it means.
_HAIR = 1 - 2**-50


def jackknife(parts: Sequence[Counts], q: float, step: float = 0.0) -> Level | None:
    """The quantile of all runs' histograms together; its error from leaving out each run in turn.

    None without an observation. A single run has no error. Source: Miller, The Jackknife, 1974;
    the units left out are whole runs, of which the merged quantile is a smooth function.
    """
    parts = [part for part in parts if part.n]
    table = _Table.of(parts)
    n = len(table.counts)
    if n == 0:
        return None
    log = float(np.log(table.quantiles(table.total, q))[0])
    floor = Counts.merge(parts).resolution(q, step)
    method = "quantile of merged counts, leaving out each run"
    if n == 1:
        return Level(log, None, 1.0, between_runs=False, method=method, floor=floor)
    spread = _spread(log, table.left_out(q))
    return Level(log, spread, float(n), between_runs=True, method=method, floor=floor)


def paired_jackknife(
    baseline: Sequence[Counts],
    candidate: Sequence[Counts],
    q: float,
    confidence: float,
    step: float = 0.0,
) -> Effect | None:
    """The ratio of two merged quantiles; its error from leaving out each block in turn.

    None when a side has a block without an observation.

    Raises:
        ValueError: the sides have not as many blocks.
    """
    sides = _pairs(baseline, candidate)
    if sides is None:
        return None
    before, after = (float(np.log(side.quantiles(side.total, q))[0]) for side in sides)
    log, n = after - before, len(baseline)
    if n == 1:
        return paired_difference([log], confidence=confidence)
    left = sides[1].left_out(q) - sides[0].left_out(q)
    floor = math.hypot(*(Counts.merge(one).resolution(q, step) for one in (baseline, candidate)))
    return paired_difference((n * log - (n - 1) * left).tolist(), log, confidence, floor)


def paired_difference_of(
    baseline: Sequence[Counts],
    candidate: Sequence[Counts],
    q: float,
    unit: str,
    confidence: float,
    step: float = 0.0,
) -> Estimate | None:
    """How much a quantile of the candidate lies above the baseline's, in their unit.

    Its error is from leaving out each block in turn. None when a side has a block without an
    observation.

    Raises:
        ValueError: the sides have not as many blocks.
    """
    sides = _pairs(baseline, candidate)
    if sides is None:
        return None
    before, after = (float(side.quantiles(side.total, q)[0]) for side in sides)
    value, n = after - before, len(baseline)
    method = "difference of merged quantiles, leaving out each block"
    if n == 1:
        return Estimate(value, None, None, n, unit, method, confidence)
    left = np.exp(sides[1].left_out(q)) - np.exp(sides[0].left_out(q))
    resolved = [Counts.merge(one).resolution(q, step) for one in (baseline, candidate)]
    floor = math.hypot(resolved[0] * before, resolved[1] * after)
    found = mean_interval((n * value - (n - 1) * left).tolist(), unit, confidence, floor)
    error = found.error or 0.0
    return Estimate(value, value - error, value + error, n, unit, method, confidence)


def _pairs(baseline: Sequence[Counts], candidate: Sequence[Counts]) -> tuple[_Table, _Table] | None:
    """Both sides' tables; none when a side has a block without an observation."""
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} blocks are no pairs with {len(candidate)}")
    if not baseline or not all(part.n for part in (*baseline, *candidate)):
        return None
    return _Table.of(baseline), _Table.of(candidate)


@dataclass(frozen=True, slots=True)
class _Table:
    """Histograms over common ranges: a row per part."""

    high: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Sequence[Counts]) -> Self:
        if not parts:
            return cls(np.empty(0), np.empty((0, 0)))
        high = np.unique(np.concatenate([part.high for part in parts]))
        counts = np.zeros((len(parts), len(high)))
        for row, part in zip(counts, parts, strict=True):
            places = np.searchsorted(high, part.high)
            row[:] = np.bincount(places, weights=part.count, minlength=len(high))
        # The logarithm of a time below the clock's step says no more than that of one step.
        return cls(np.maximum(high, 1).astype(np.float64), counts)

    @property
    def total(self) -> NDArray[np.float64]:
        total: NDArray[np.float64] = self.counts.sum(axis=0, keepdims=True)
        return total

    def quantiles(self, counts: NDArray[np.float64], q: float) -> NDArray[np.float64]:
        """The quantile of each row of counts."""
        upto = np.cumsum(counts, axis=1)
        ranks = np.maximum(1, np.ceil(q * upto[:, -1] * _HAIR))
        places = (upto < ranks[:, None]).sum(axis=1)
        found: NDArray[np.float64] = self.high[np.minimum(places, len(self.high) - 1)]
        return found

    def left_out(self, q: float) -> NDArray[np.float64]:
        """The logarithm of the quantile without each part in turn."""
        total = self.total
        # Row by row, because a copy of the table of hundreds of parts takes 10 MB or more.
        rest = [self.quantiles(total - row, q)[0] for row in self.counts]
        logs: NDArray[np.float64] = np.log(rest)
        return logs


def _spread(log: float, left: NDArray[np.float64]) -> float:
    """The deviation of one unit, from the pseudo-values of a jackknife."""
    n = len(left)
    return float((n * log - (n - 1) * left).std(ddof=1))
