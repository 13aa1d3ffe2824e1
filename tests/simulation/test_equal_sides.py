"""How often comparisons of equal sides, of five metrics, report a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest
from scipy import signal

from kvmark import stats
from kvmark.stats.level import paired_difference

COMPARISONS: Final = 200
OPERATIONS: Final = 2_000
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)
#: Three standard errors above 5 %.
MOST: Final = 0.05 * COMPARISONS + 3 * math.sqrt(COMPARISONS * 0.05 * 0.95)

Chance = np.random.Generator
Make = Callable[[Chance, float], list[stats.Effect | None]]


@dataclass(frozen=True)
class Side:
    """Runs, or stretches of one run: the rate and the response times of each."""

    rates: list[float]
    times: list[stats.Counts]


def side(chance: Chance, slower: float, drift: Sequence[float], spread: float = 0.03) -> Side:
    """Runs on a machine whose speed drifts as given; each has an error of its own."""
    rates, times = [], []
    for moved in drift:
        speed = math.exp(moved + chance.normal(0, spread)) / slower
        values = chance.lognormal(math.log(50_000 / speed), 0.5, OPERATIONS)
        # Buckets of about 0.1 %, as in the engine's histograms.
        found, count = np.unique(values.astype(np.int64) // 64 * 64, return_counts=True)
        times.append(stats.Counts(found, found + 63, count))
        rates.append(10_000 * speed)
    return Side(rates, times)


def runs(chance: Chance, slower: float) -> list[stats.Effect | None]:
    """Five runs of each side, one side after the other."""
    one, other = side(chance, 1.0, [0.0] * 5), side(chance, slower, [0.0] * 5)
    levels = [
        (stats.jackknife(one.times, q, 1.0), stats.jackknife(other.times, q, 1.0))
        for q in QUANTILES
    ]
    effects = [stats.difference(before, after) for before, after in levels if before and after]
    return [stats.difference(stats.level_of(one.rates), stats.level_of(other.rates)), *effects]


def blocks(chance: Chance, slower: float) -> list[stats.Effect | None]:
    """Twelve blocks with a run of each side, while the machine's speed drifts by 10 %."""
    drift = chance.normal(0, 0.1, 12).tolist()
    one, other = side(chance, 1.0, drift), side(chance, slower, drift)
    logs = [math.log(b / a) for a, b in zip(one.rates, other.rates, strict=True)]
    times = [stats.paired_jackknife(one.times, other.times, q, 0.95, 1.0) for q in QUANTILES]
    return [paired_difference(logs), *times]


def stretches(chance: Chance, slower: float) -> list[stats.Effect | None]:
    """One run of each side, forty intervals whose speeds resemble those before them."""
    sides = []
    for factor in (1.0, slower):
        drift = signal.lfilter([1.0], [1.0, -0.5], [0.0, *chance.normal(0, 0.02, 39)]).tolist()
        one = side(chance, factor, drift, spread=0.0)
        rate = stats.rate_of_intervals(math.fsum(one.rates) / len(one.rates), one.rates)
        sides.append([rate, *(stats.quantile_of_intervals(one.times, q, 1.0) for q in QUANTILES)])
    pairs = zip(*sides, strict=True)
    return [
        stats.difference(before, after) if before and after else None for before, after in pairs
    ]


def reported(make: Make, slower: float, n: int) -> int:
    """The comparisons, of n, with any answer but 'no difference'."""
    chance, found = np.random.default_rng(20), 0
    for _ in range(n):
        effects = [one for one in make(chance, slower) if one is not None]
        assert len(effects) == 1 + len(QUANTILES)
        found += any(one.significant() for one in stats.as_family(effects))
    return found


@pytest.mark.parametrize("make", [runs, blocks, stretches])
def test_few_equal_sides_are_reported_as_different(make: Make) -> None:
    assert reported(make, 1.0, COMPARISONS) <= MOST


@pytest.mark.parametrize(("make", "slower"), [(runs, 1.12), (blocks, 1.06), (stretches, 1.12)])
def test_nine_of_ten_planted_differences_are_reported(make: Make, slower: float) -> None:
    assert reported(make, slower, 40) >= 36
