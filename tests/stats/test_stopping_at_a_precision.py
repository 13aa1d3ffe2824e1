"""Runs that end at a precision: the engine's rule against the interval that is printed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from kvmark._engine import StopRule
from kvmark.stats import rate_of_intervals
from kvmark.stats.series import mean_error

INTERVALS, LEAST = 300, 50
BOUND = 0.03
SECOND_NS = 10**9


def rule(bound: float = BOUND, least: int = LEAST) -> StopRule:
    """A rule that looks at a precision."""
    until = {"rule": "precision", "bound": bound, "min_intervals": least, "max_intervals": None}
    return StopRule(json.dumps(until))


def push(stop: StopRule, rate: float) -> None:
    """Gives a rule an interval of a thousand seconds, whose rates are whole to a thousandth."""
    operations = round(1000 * rate)
    stop.push(0, 1000 * SECOND_NS, operations, operations, 0)


def rates(
    chance: np.random.Generator, runs: int, phi: float, scatter: float
) -> NDArray[np.float64]:
    """Rates near 1000 of so many runs; neighbours are correlated by phi."""
    steps = chance.normal(size=(runs, INTERVALS))
    steps[:, 1:] *= math.sqrt(1 - phi**2)
    for place in range(1, INTERVALS):
        steps[:, place] += phi * steps[:, place - 1]
    return 1000 * (1 + scatter * steps)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
@pytest.mark.parametrize("n", [25, 50, 77, 300])
def test_the_engine_and_the_report_estimate_the_same_error(phi: float, n: int) -> None:
    (series,) = rates(np.random.default_rng([7, n]), 1, phi, 0.05)
    stop = rule()
    for rate in series[:n]:
        push(stop, rate)
    found = mean_error(np.round(1000 * series[:n]) / 1000)
    printed = found.raised(0.7).stderr / series[:n].mean()
    assert stop.relative_stderr() == pytest.approx(printed, rel=1e-5)


def stopped(series: NDArray[np.float64]) -> tuple[int, bool]:
    """After how many intervals a run ends, and whether the rule ended it."""
    stop = rule()
    for n, rate in enumerate(series, 1):
        push(stop, rate)
        if stop.satisfied():
            return n, True
    return len(series), False


@pytest.mark.parametrize("phi", [0.0, 0.4, 0.8, 0.9])
def test_the_printed_interval_of_a_run_that_ends_at_a_precision_covers_the_truth(
    phi: float,
) -> None:
    held = runs = ended = 0
    for scatter in (0.03, 0.05, 0.1):
        chance = np.random.default_rng([1, round(phi * 100), round(scatter * 100)])
        for series in rates(chance, 400, phi, scatter):
            n, by_rule = stopped(series)
            found = rate_of_intervals(
                float(series[:n].mean()), series[:n].tolist(), until_known=by_rule
            ).plain("ops/s")
            held, runs, ended = held + (found.low <= 1000 <= found.high), runs + 1, ended + by_rule
            if by_rule:
                assert found.relative_error < BOUND * 1.02
    assert ended
    assert held / runs >= 0.93
