"""The error of a quantile of merged histograms, from runs or from blocks.

Quantiles are never averaged: to find the error, the merging is repeated. No error is smaller than
the resolution of the histograms and of the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kvmark.stats.counts import ROUNDING, Counts
from kvmark.stats.estimate import Estimate
from kvmark.stats.level import Effect, Level, mean_interval, paired_difference


def jackknife(parts: Sequence[Counts], q: float, step: float = 0.0) -> Level | None:
    """The quantile of all runs' merged histograms, with its error from leaving out each run.

    None without observations. A single run has no error. Source: Miller, The Jackknife, 1974; the
    units left out are whole runs, of which the merged quantile is a smooth function.
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
    # The deviation of one unit, from the pseudo-values.
    spread = float((n * log - (n - 1) * table.left_out(q)).std(ddof=1))
    return Level(log, spread, float(n), between_runs=True, method=method, floor=floor)


def paired_jackknife(
    baseline: Sequence[Counts],
    candidate: Sequence[Counts],
    q: float,
    confidence: float,
    step: float = 0.0,
) -> Effect | None:
    """The ratio of two merged quantiles, with its error from leaving out each block.

    None if a block has no observation.

    Raises:
        ValueError: baseline and candidate differ in the number of blocks.
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
    step: float = 0.0,
) -> Estimate | None:
    """Candidate - baseline of a merged quantile, with its error from leaving out each block.

    None if a block has no observation.

    Raises:
        ValueError: baseline and candidate differ in the number of blocks.
    """
    sides = _pairs(baseline, candidate)
    if sides is None:
        return None
    before, after = (float(side.quantiles(side.total, q)[0]) for side in sides)
    value, n = after - before, len(baseline)
    method = "difference of merged quantiles, leaving out each block"
    if n == 1:
        return Estimate.alone(value, unit, method)
    left = np.exp(sides[1].left_out(q)) - np.exp(sides[0].left_out(q))
    resolved = [Counts.merge(one).resolution(q, step) for one in (baseline, candidate)]
    floor = math.hypot(resolved[0] * before, resolved[1] * after)
    error = mean_interval((n * value - (n - 1) * left).tolist(), unit, floor=floor).error or 0.0
    return Estimate(value, value - error, value + error, n, unit, method)


def _pairs(baseline: Sequence[Counts], candidate: Sequence[Counts]) -> tuple[_Table, _Table] | None:
    """The tables of baseline and candidate; none if a block has no observation."""
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} blocks are no pairs with {len(candidate)}")
    if not baseline or not all(part.n for part in (*baseline, *candidate)):
        return None
    return _Table.of(baseline), _Table.of(candidate)


@dataclass(frozen=True, slots=True)
class _Table:
    """Histograms over common ranges, a row per part."""

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
        # Times below the clock's step count as one step, because of the logarithm.
        return cls(np.maximum(high, 1).astype(np.float64), counts)

    @property
    def total(self) -> NDArray[np.float64]:
        total: NDArray[np.float64] = self.counts.sum(axis=0, keepdims=True)
        return total

    def quantiles(self, counts: NDArray[np.float64], q: float) -> NDArray[np.float64]:
        """The quantile of each row of counts."""
        upto = np.cumsum(counts, axis=1)
        ranks = np.maximum(1, np.ceil(q * upto[:, -1] * ROUNDING))
        places = (upto < ranks[:, None]).sum(axis=1)
        found: NDArray[np.float64] = self.high[np.minimum(places, len(self.high) - 1)]
        return found

    def left_out(self, q: float) -> NDArray[np.float64]:
        """The logarithm of the quantile without each part."""
        total = self.total
        # Row by row, because a copy of the table of hundreds of parts needs 10 MB or more.
        rest = [self.quantiles(total - row, q)[0] for row in self.counts]
        logs: NDArray[np.float64] = np.log(rest)
        return logs
