"""Interleaved comparisons: their order, when they end, and how often they are wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from kvmark import catalog
from kvmark.errors import UsageError
from kvmark.experiment.interleaved_ab import (
    MOST_LEFT_OUT,
    SIDES,
    InterleavedAB,
    Precision,
    Side,
    SideRequest,
    block_progress,
    measure_blocks,
    named_differences,
    side_orders,
)
from kvmark.spec.metric import parse_metric
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.stats import PrecisionTarget, as_family, decide
from kvmark.stats.level import paired_difference

NOISE = 0.03
REPETITIONS = 200
FIND = Precision(within=None, find=0.02, most_blocks=400)
UNCHANGED = paired_difference([0.01, -0.01, 0.012, -0.012])


def noisy(seed: int, ratio: float) -> Callable[[int, Side], float]:
    """Throughput with noise in every run and a slow wave of the machine's speed."""
    chance = np.random.default_rng(seed)
    phase, runs = chance.uniform(0, 2 * math.pi), 0

    def measure(_: int, side: Side) -> float:
        nonlocal runs
        runs += 1
        speed = 0.1 * math.sin(phase + runs / 40) + chance.normal(0, NOISE)
        return math.exp(speed) * (ratio if side == "candidate" else 1.0)

    return measure


def log_ratios(
    seed: int, measure: Callable[[int, Side], float], precision: Precision
) -> list[float]:
    """The logarithms of candidate ÷ base in all blocks of a comparison."""
    logs: dict[int, float] = {}

    def noted(block: int, side: Side) -> float:
        value = measure(block, side)
        logs[block] = logs.get(block, 0.0) + math.log(value) * (1 if side == "candidate" else -1)
        return value

    for _ in measure_blocks(seed, noted, precision):
        pass
    return [*logs.values()]


def differs(seed: int, ratio: float) -> bool:
    """Whether a comparison finds a difference."""
    return decide(log_ratios(seed, noisy(seed, ratio), FIND), FIND).effect.significant()


def test_equal_sides_differ_as_often_as_the_error_level() -> None:
    different = sum(differs(seed, 1.0) for seed in range(REPETITIONS))
    assert 3 <= different <= 19


def test_a_difference_of_the_requested_size_is_found_in_nine_of_ten_comparisons() -> None:
    different = sum(differs(seed, 1.02) for seed in range(REPETITIONS))
    assert different >= 0.9 * REPETITIONS


def test_a_difference_is_found_too_where_the_error_level_is_shared_by_all_metrics() -> None:
    claims, found_in_all = 9, 0
    precision = replace(FIND, claims=claims)
    for seed in range(60):
        logs = log_ratios(seed, noisy(seed, 1.02), precision)
        others = [decide(logs, precision).effect, *[UNCHANGED] * (claims - 1)]
        found_in_all += as_family(others)[0].significant()
    assert found_in_all >= 54


def test_the_final_interval_has_the_requested_width() -> None:
    chance = np.random.default_rng(1)
    asked = PrecisionTarget(within=0.02, find=None, most_blocks=400)
    logs: list[float] = []
    while not logs or not decide(logs, asked).done:
        logs.append(float(chance.normal(0, NOISE)))
    ratio = decide(logs, asked).effect.ratio
    # Where later blocks are noisier than the first, the interval says so instead.
    assert math.log(ratio.high / ratio.value) <= math.log1p(0.02) * 1.1


def test_a_quiet_machine_needs_only_the_first_stage() -> None:
    chance = np.random.default_rng(1)
    logs = chance.normal(0.01, 0.001, 12)
    asked = PrecisionTarget(within=0.01, find=None, most_blocks=100)
    assert not decide(logs[:11], asked).done
    assert decide(logs, asked).done


def test_the_number_of_blocks_is_decided_once() -> None:
    logs = np.random.default_rng(2).normal(0, NOISE, 60)
    asked = PrecisionTarget(within=0.012, find=None, most_blocks=400)
    assert len({decide(logs[:n], asked).needed for n in range(12, 60)}) == 1


def test_at_the_limit_it_ends_and_reports_the_number_of_blocks_it_needs() -> None:
    precision = Precision(within=0.001, find=None, most_blocks=15)
    logs = log_ratios(1, noisy(1, 1.0), precision)
    progress = block_progress(logs, precision)
    assert (len(logs), progress.done) == (15, True)
    assert (progress.wanted or 0) > 1000


def test_each_block_has_both_sides_in_an_order_of_the_seed_s_own() -> None:
    orders = list(islice(side_orders(1), 200))
    assert all(set(sides) == set(SIDES) for sides in orders)
    assert 70 <= Counter(sides[0] for sides in orders)["base"] <= 130
    assert orders == list(islice(side_orders(1), 200))
    assert orders != list(islice(side_orders(2), 200))


def test_both_sides_of_a_block_do_the_same_operations_and_blocks_differ() -> None:
    spec = RunSpec(workload=catalog.find("ycsb/c"), system=parse_system_url("null:"))
    sides = {side: SideRequest(spec) for side in SIDES}
    study = InterleavedAB(sides=sides, metric=parse_metric("p99"), precision=FIND, seed=3)
    assert study.spec(0, "base").seed == study.spec(0, "candidate").seed
    assert study.spec(0, "base").seed != study.spec(1, "base").seed
    assert study.spec(0, "base").duration_ns == 5 * 10**9


@pytest.mark.parametrize(
    ("within", "find", "blocks"),
    [(None, None, 10), (0.1, 0.1, 10), (0.0, None, 10), (0.1, None, 3)],
)
def test_a_precision_that_can_not_be_reached_is_refused(
    within: float | None, find: float | None, blocks: int
) -> None:
    with pytest.raises(UsageError):
        Precision(within, find, blocks)


def left_out_at(*blocks: int) -> tuple[list[tuple[int, Side]], Callable[[int, Side], float | None]]:
    """What was measured, and a measure whose candidates of these blocks can't be used."""
    measured: list[tuple[int, Side]] = []

    def measure(block: int, side: Side) -> float | None:
        measured.append((block, side))
        return None if side == "candidate" and block in blocks else 1.0 + block / 1000

    return measured, measure


def test_a_block_that_can_not_be_used_is_left_out_and_others_take_its_place() -> None:
    measured, measure = left_out_at(2, 3)
    precision = Precision(within=0.5, find=None, most_blocks=6, first_stage=6)
    standings = list(measure_blocks(1, measure, precision))
    assert [standing.effect.ratio.n for standing in standings] == [1, 2, 3, 4, 5, 6]
    assert {block for block, _ in measured} == set(range(8))
    assert standings[-1].done


def test_blocks_of_which_one_after_the_other_can_not_be_used_end_a_comparison() -> None:
    measured, measure = left_out_at(*range(2, 100))
    standings = list(measure_blocks(1, measure, FIND))
    assert [standing.effect.ratio.n for standing in standings] == [1, 2]
    assert max(block for block, _ in measured) == 2 + MOST_LEFT_OUT - 1


def test_differences_that_the_sides_name_are_compared_and_others_refused() -> None:
    assert named_differences("redis://a", "redis://b") == ("plan", "system", "environment")
    # A setting of one system that changes between the runs is nobody's choice.
    assert named_differences("redis://a", "redis://a") == ("plan",)
