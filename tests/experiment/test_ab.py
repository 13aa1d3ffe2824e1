"""Interleaved comparisons: their order, when they end, and how often they are wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from kvmark import catalog
from kvmark.errors import UsageError
from kvmark.experiment import interleaved_ab as ab
from kvmark.spec.metric import parse_metric
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.stats import PrecisionTarget, as_family, decide
from kvmark.stats.level import paired_difference

FIND = ab.Precision(within=None, find=0.02, most_blocks=400)
UNCHANGED = paired_difference([0.01, -0.01, 0.012, -0.012])


Measure = Callable[[int, ab.Side], float]


def noisy(seed: int, ratio: float) -> Measure:
    """Throughput with noise in every run and a slow wave of the machine's speed."""
    chance = np.random.default_rng(seed)
    phase, runs = chance.uniform(0, 2 * math.pi), 0

    def measure(_: int, side: ab.Side) -> float:
        nonlocal runs
        runs += 1
        speed = 0.1 * math.sin(phase + runs / 40) + chance.normal(0, 0.03)
        return math.exp(speed) * (ratio if side == "candidate" else 1.0)

    return measure


def log_ratios(seed: int, measure: Measure, precision: ab.Precision) -> list[float]:
    """The logarithms of candidate ÷ base in all blocks of a comparison."""
    logs: dict[int, float] = {}

    def noted(block: int, side: ab.Side) -> float:
        value = measure(block, side)
        logs[block] = logs.get(block, 0.0) + math.log(value) * (1 if side == "candidate" else -1)
        return value

    for _ in ab.measure_blocks(seed, noted, precision):
        pass
    return [*logs.values()]


@pytest.mark.parametrize(
    ("ratio", "claims", "comparisons", "least", "most"),
    # A difference of the requested size is found in nine of ten.
    [(1.0, 1, 200, 3, 19), (1.02, 1, 200, 180, 200), (1.02, 9, 60, 54, 60)],
    ids=["equal sides as often as the error level", "one metric", "nine metrics"],
)
def test_differences_are_found(
    ratio: float, claims: int, comparisons: int, least: int, most: int
) -> None:
    precision, found = replace(FIND, claims=claims), 0
    for seed in range(comparisons):
        first = decide(log_ratios(seed, noisy(seed, ratio), precision), precision).effect
        found += as_family([first, *[UNCHANGED] * (claims - 1)])[0].significant()
    assert least <= found <= most


def test_the_final_interval_has_the_requested_width() -> None:
    chance = np.random.default_rng(1)
    asked = PrecisionTarget(within=0.02, find=None, most_blocks=400)
    logs: list[float] = []
    while not logs or not decide(logs, asked).done:
        logs.append(float(chance.normal(0, 0.03)))
    ratio = decide(logs, asked).effect.ratio
    # Where later blocks are noisier than the first, the interval says so instead.
    assert math.log(ratio.high / ratio.value) <= math.log1p(0.02) * 1.1


def test_the_number_of_blocks_is_decided_once() -> None:
    logs = np.random.default_rng(2).normal(0, 0.03, 60)
    asked = PrecisionTarget(within=0.012, find=None, most_blocks=400)
    assert len({decide(logs[:n], asked).needed for n in range(12, 60)}) == 1
    # A quiet machine needs only the first stage.
    logs = np.random.default_rng(1).normal(0.01, 0.001, 12)
    asked = PrecisionTarget(within=0.01, find=None, most_blocks=100)
    assert [decide(logs[:n], asked).done for n in (11, 12)] == [False, True]


def test_at_the_limit_it_ends_and_reports_the_number_of_blocks_it_needs() -> None:
    precision = ab.Precision(within=0.001, find=None, most_blocks=15)
    logs = log_ratios(1, noisy(1, 1.0), precision)
    progress = ab.block_progress(logs, precision)
    assert (len(logs), progress.done) == (15, True)
    assert (progress.wanted or 0) > 1000


def test_each_block_has_both_sides_in_an_order_of_the_seed_s_own() -> None:
    orders = list(islice(ab.side_orders(1), 200))
    assert all(set(sides) == set(ab.SIDES) for sides in orders)
    assert 70 <= Counter(sides[0] for sides in orders)["base"] <= 130
    assert orders == list(islice(ab.side_orders(1), 200))
    assert orders != list(islice(ab.side_orders(2), 200))


def test_both_sides_of_a_block_do_the_same_operations_and_blocks_differ() -> None:
    spec = RunSpec(workload=catalog.find("ycsb/c"), system=parse_system_url("null:"))
    sides = {side: ab.SideRequest(spec) for side in ab.SIDES}
    study = ab.InterleavedAB(sides=sides, metric=parse_metric("p99"), precision=FIND, seed=3)
    assert study.spec(0, "base").seed == study.spec(0, "candidate").seed
    assert study.spec(0, "base").seed != study.spec(1, "base").seed
    assert study.spec(0, "base").duration_ns == 5 * 10**9


@pytest.mark.parametrize(
    "asked", [(None, None, 10), (0.1, 0.1, 10), (0.0, None, 10), (0.1, None, 3)]
)
def test_a_precision_out_of_reach_is_refused(asked: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        ab.Precision(*asked)


@pytest.mark.parametrize(
    ("unusable", "usable", "done"),
    [((2, 3), 6, True), (range(2, 100), 2, False)],
    ids=["others take their place", "several in a row end the comparison"],
)
def test_unusable_blocks_are_left_out(unusable: Sequence[int], usable: int, *, done: bool) -> None:
    measured: set[int] = set()

    def measure(block: int, side: ab.Side) -> float | None:
        measured.add(block)
        return None if side == "candidate" and block in unusable else 1.0 + block / 1000

    precision = ab.Precision(within=0.5, find=None, most_blocks=6, first_stage=6)
    standings = list(ab.measure_blocks(1, measure, precision))
    assert [standing.effect.ratio.n for standing in standings] == list(range(1, usable + 1))
    assert len(measured) == (8 if done else 2 + ab.MOST_LEFT_OUT)
    assert standings[-1].done == done


def test_differences_that_the_sides_name_are_compared_and_others_refused() -> None:
    assert ab.named_differences("redis://a", "redis://b") == ("plan", "system", "environment")
    # A setting of one system that changes between the runs is nobody's choice.
    assert ab.named_differences("redis://a", "redis://a") == ("plan",)
