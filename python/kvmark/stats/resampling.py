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
    if not parts:
        return None
    merged, n = _MergedQuantile.of(parts, q, step), len(parts)
    log, floor = math.log(merged.value), merged.resolution
    method = "quantile of merged counts, leaving out each run"
    if n == 1:
        return Level(log, None, 1.0, between_runs=False, method=method, floor=floor)
    # The deviation of one unit, from the pseudo-values.
    spread = float((n * log - (n - 1) * np.log(merged.left_out)).std(ddof=1))
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
    sides = _pairs(baseline, candidate, q, step)
    if sides is None:
        return None
    before, after = sides
    log, n = math.log(after.value) - math.log(before.value), len(baseline)
    if n == 1:
        return paired_difference([log], confidence=confidence)
    left = np.log(after.left_out) - np.log(before.left_out)
    floor = math.hypot(before.resolution, after.resolution)
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
    sides = _pairs(baseline, candidate, q, step)
    if sides is None:
        return None
    before, after = sides
    value, n = after.value - before.value, len(baseline)
    method = "difference of merged quantiles, leaving out each block"
    if n == 1:
        return Estimate.alone(value, unit, method)
    left = after.left_out - before.left_out
    floor = math.hypot(before.resolution * before.value, after.resolution * after.value)
    error = mean_interval((n * value - (n - 1) * left).tolist(), unit, floor=floor).error or 0.0
    return Estimate(value, value - error, value + error, n, unit, method)


@dataclass(frozen=True, slots=True)
class _MergedQuantile:
    """A quantile of merged histograms."""

    value: float
    #: The quantile without each part.
    left_out: NDArray[np.float64]
    #: As a share of the value.
    resolution: float

    @classmethod
    def of(cls, parts: Sequence[Counts], q: float, step: float) -> Self:
        whole = Counts.merge(parts)
        high = np.unique(whole.high)

        def column(part: Counts) -> NDArray[np.float64]:
            places = np.searchsorted(high, part.high)
            return np.bincount(places, part.count, len(high)).astype(np.float64)

        def quantile(counts: NDArray[np.float64]) -> float:
            upto = np.cumsum(counts)
            rank = max(1, math.ceil(q * upto[-1] * ROUNDING))
            place = min(int(np.searchsorted(upto, rank)), len(high) - 1)
            # Times below the clock's step count as one step, because of the logarithm.
            return float(max(high[place], 1))

        total = column(whole)
        # Part by part, because a table of hundreds of parts needs 10 MB or more.
        left_out = np.array([quantile(total - column(part)) for part in parts])
        return cls(quantile(total), left_out, whole.resolution(q, step))


def _pairs(
    baseline: Sequence[Counts], candidate: Sequence[Counts], q: float, step: float
) -> tuple[_MergedQuantile, _MergedQuantile] | None:
    """The quantiles of baseline and candidate; none if a block has no observation."""
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} blocks are no pairs with {len(candidate)}")
    if not baseline or not all(part.n for part in (*baseline, *candidate)):
        return None
    return _MergedQuantile.of(baseline, q, step), _MergedQuantile.of(candidate, q, step)
