"""How sure a quantile of merged histograms is, when it is taken anew from part of them.

Quantiles are never averaged: each replicate merges counts and takes the quantile of all of them.
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
from kvmark.stats.level import Effect, Level, paired_difference
from kvmark.stats.mean import mean_interval
from kvmark.stats.series import effective_sample_size

#: Replicates of a bootstrap: the error of a standard error from so many is about 3 %.
REPLICATES = 500

# More parts than this are merged with their neighbours first: blocks are longer anyway.
_MOST_PARTS = 256
# With fewer intervals a bootstrap resamples next to nothing.
_LEAST_PARTS = 5
_AT_ONCE = 100
# As in `Counts.quantile`: a product may lie a hair above the integer it means.
_HAIR = 1 - 2**-50


def jackknife(parts: Sequence[Counts], q: float) -> Level | None:
    """The quantile of all runs' histograms together; its error from leaving out each run in turn.

    None without an observation. A single run has no error. Source: Miller, The Jackknife, 1974;
    the units left out are whole runs, of which the merged quantile is a smooth function.
    """
    table = _Table.of([part for part in parts if part.n])
    n = len(table.counts)
    if n == 0:
        return None
    log = float(np.log(table.quantiles(table.total, q))[0])
    method = "quantile of merged counts, leaving out each run"
    if n == 1:
        return Level(log, None, 1.0, between_runs=False, method=method)
    return Level(log, _spread(log, table.left_out(q)), float(n), between_runs=True, method=method)


def paired_jackknife(
    baseline: Sequence[Counts], candidate: Sequence[Counts], q: float, confidence: float
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
    return paired_difference((n * log - (n - 1) * left).tolist(), log, confidence)


def paired_difference_of(
    baseline: Sequence[Counts], candidate: Sequence[Counts], q: float, unit: str, confidence: float
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
    found = mean_interval((n * value - (n - 1) * left).tolist(), unit, confidence)
    error = found.error or 0.0
    return Estimate(value, value - error, value + error, n, unit, method, confidence)


def _pairs(baseline: Sequence[Counts], candidate: Sequence[Counts]) -> tuple[_Table, _Table] | None:
    """Both sides' tables; none when a side has a block without an observation."""
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} blocks are no pairs with {len(candidate)}")
    if not baseline or not all(part.n for part in (*baseline, *candidate)):
        return None
    return _Table.of(baseline), _Table.of(candidate)


def block_bootstrap(parts: Sequence[Counts], q: float, seed: int = 1) -> Level | None:
    """The quantile of one run; its error from drawing stretches of its intervals anew.

    Blocks of neighbouring intervals are drawn with replacement, so that what resembles its
    neighbours stays together (Künsch, The Jackknife and the Bootstrap for General Stationary
    Observations, 1989). They are as long as n^⅓ (Hall, Horowitz and Jing 1995) times the
    autocorrelation time of the share of operations beyond the quantile, at most a third of all.
    None without an observation; no error from fewer than five intervals.
    """
    table = _Table.of(_condensed([part for part in parts if part.n]))
    n = len(table.counts)
    if n == 0:
        return None
    log = float(np.log(table.quantiles(table.total, q))[0])
    method = "quantile of one run, moving-block bootstrap"
    length = _block_length(table, math.exp(log))
    if n < _LEAST_PARTS or n / length < 2:
        return Level(log, None, float(n), between_runs=False, method=method)
    chance = np.random.default_rng(seed)
    logs = np.concatenate(
        [
            np.log(table.quantiles(_drawn(n, length, chance) @ table.counts, q))
            for _ in range(REPLICATES // _AT_ONCE)
        ]
    )
    # Replicates are centred on what was drawn from, which hides a share of the variance.
    blocks = n / length
    error = float(logs.std(ddof=1)) * (blocks / (blocks - 1)) ** 0.5
    return Level(log, error * blocks**0.5, blocks, between_runs=False, method=method)


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
            np.add.at(row, np.searchsorted(high, part.high), part.count)
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
        logs: NDArray[np.float64] = np.log(self.quantiles(self.total - self.counts, q))
        return logs


def _spread(log: float, left: NDArray[np.float64]) -> float:
    """The deviation of one unit, from the pseudo-values of a jackknife."""
    n = len(left)
    return float((n * log - (n - 1) * left).std(ddof=1))


def _block_length(table: _Table, value: float) -> int:
    n = len(table.counts)
    # A hair more: the value went through a logarithm and back.
    beyond = table.counts[:, table.high > value * (1 + 1e-9)].sum(axis=1)
    time = n / effective_sample_size(beyond / table.counts.sum(axis=1))
    most = max(1, n // 3)
    return min(math.ceil(math.cbrt(n) * time), most)


def _drawn(n: int, length: int, chance: np.random.Generator) -> NDArray[np.float64]:
    """How often each interval is in each of many replicates."""
    starts = chance.integers(0, n - length + 1, (_AT_ONCE, math.ceil(n / length)))
    places = (starts[:, :, None] + np.arange(length)).reshape(_AT_ONCE, -1)[:, :n]
    weights = np.zeros((_AT_ONCE, n))
    np.add.at(weights, (np.arange(_AT_ONCE)[:, None], places), 1)
    return weights


def _condensed(parts: Sequence[Counts]) -> list[Counts]:
    if len(parts) <= _MOST_PARTS:
        return list(parts)
    groups = np.array_split(np.arange(len(parts)), _MOST_PARTS)
    return [Counts.merge(parts[place] for place in group) for group in groups]
