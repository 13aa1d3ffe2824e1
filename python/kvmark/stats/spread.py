"""Several values in eleven numbers, as published tables of intervals have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

PERCENTILES: Final = (1, 5, 10, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, ends, deviation, median and percentiles of values, in their unit."""

    n: int
    mean: float
    min: float
    max: float
    #: Of the sample, divided by n - 1; 0 for a single value.
    stddev: float
    median: float
    p1: float
    p5: float
    p10: float
    p90: float
    p95: float
    p99: float


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The percentile of values in rising order, by the rank p (n + 1).

    Between two ranks it is interpolated; before the first and behind the last value it is that
    value, so that of fewer than 99 values the first percentile is the smallest.
    """
    rank = percent / 100 * (len(ordered) + 1)
    below = math.floor(rank)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    low, high = ordered[below - 1], ordered[below]
    return low + (high - low) * (rank - below)


def spread(values: Sequence[float]) -> Spread | None:
    """The eleven numbers; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    p1, p5, p10, p90, p95, p99 = (percentile(ordered, percent) for percent in PERCENTILES)
    return Spread(
        n=len(ordered),
        mean=fmean(ordered),
        min=ordered[0],
        max=ordered[-1],
        stddev=stdev(ordered) if len(ordered) > 1 else 0.0,
        median=percentile(ordered, 50),
        p1=p1,
        p5=p5,
        p10=p10,
        p90=p90,
        p95=p95,
        p99=p99,
    )
