"""Interleaved comparisons: their order, when they end, and how often they are wrong."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kvmark import _engine, catalog
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
    side_orders,
)
from kvmark.plan.compile import compile_run
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


def found(seed: int, ratio: float, precision: Precision = FIND) -> tuple[bool, int]:
    """Whether a whole comparison says that the sides differ, and after how many blocks."""
    logs: list[float] = []

    def standing(log_ratios: list[float] | tuple[float, ...]) -> object:
        logs[:] = log_ratios
        return block_progress(log_ratios, precision)

    for _ in measure_blocks(seed, noisy(seed, ratio), standing):  # type: ignore[arg-type]
        pass
    asked = PrecisionTarget(precision.within, precision.find, precision.most_blocks)
    return decide(logs, asked).effect.significant(), len(logs)


def test_equal_sides_are_called_different_as_often_as_the_error_level_says() -> None:
    different = sum(found(seed, 1.0)[0] for seed in range(REPETITIONS))
    assert 3 <= different <= 19


def test_a_difference_of_the_size_asked_for_is_found_in_nine_of_ten_comparisons() -> None:
    different = sum(found(seed, 1.02)[0] for seed in range(REPETITIONS))
    assert different >= 0.9 * REPETITIONS


def test_a_difference_is_found_too_where_the_error_level_is_shared_by_all_metrics() -> None:
    claims, found_in_all = 9, 0
    precision = replace(FIND, claims=claims)
    asked = PrecisionTarget(None, FIND.find, FIND.most_blocks, claims=claims)
    for seed in range(60):
        logs: list[float] = []

        def standing(log_ratios: object, kept: list[float] = logs) -> object:
            kept[:] = log_ratios  # type: ignore[call-overload]
            return block_progress(kept, precision)

        for _ in measure_blocks(seed, noisy(seed, 1.02), standing):  # type: ignore[arg-type]
            pass
        others = [decide(logs, asked).effect, *[UNCHANGED] * (claims - 1)]
        found_in_all += as_family(others)[0].significant()
    assert found_in_all >= 54


def test_the_interval_at_the_end_is_as_narrow_as_was_asked() -> None:
    chance = np.random.default_rng(1)
    asked = PrecisionTarget(within=0.02, find=None, most_blocks=400)
    logs: list[float] = []
    while not logs or not decide(logs, asked).done:
        logs.append(float(chance.normal(0, NOISE)))
    ratio = decide(logs, asked).effect.ratio
    assert ratio.low is not None
    assert ratio.high is not None
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


def test_noise_that_grows_after_the_first_stage_widens_the_interval() -> None:
    chance = np.random.default_rng(3)
    logs = np.concatenate([chance.normal(0, 0.005, 12), chance.normal(0, 0.1, 12)])
    asked = PrecisionTarget(within=0.001, find=None, most_blocks=24)
    assert decide(logs, asked).effect.ratio.method.endswith("t-interval")


def test_at_the_bound_it_ends_and_says_how_many_blocks_it_would_have_needed() -> None:
    _, blocks = found(1, 1.0, Precision(within=0.001, find=None, most_blocks=15))
    logs = np.random.default_rng(2).normal(0, NOISE, 15).tolist()
    standing = block_progress(logs, Precision(within=0.001, find=None, most_blocks=15))
    assert blocks == 15
    assert standing.done
    assert (standing.wanted or 0) > 1000


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
    standings = list(measure_blocks(1, measure, lambda logs: block_progress(logs, precision)))
    assert [standing.blocks for standing in standings] == [1, 2, 3, 4, 5, 6]
    assert {block for block, _ in measured} == set(range(8))
    assert standings[-1].done


def test_blocks_of_which_one_after_the_other_can_not_be_used_end_a_comparison() -> None:
    measured, measure = left_out_at(*range(2, 100))
    standings = list(measure_blocks(1, measure, lambda logs: block_progress(logs, FIND)))
    assert [standing.blocks for standing in standings] == [1, 2]
    assert max(block for block, _ in measured) == 2 + MOST_LEFT_OUT - 1


def simulated(folder: Path, seed: int, ratio: float) -> Callable[[int, Side], float]:
    """Throughput of the engine on the simulated driver, whose speed differs from run to run."""
    chance = np.random.default_rng(seed)
    base = RunSpec(
        workload=catalog.find("ycsb/c"),
        system=parse_system_url("sim:?clock=virtual&service=constant"),
        operations=50,
        load="never",
    )
    phase, runs = chance.uniform(0, 2 * math.pi), 0

    def measure(block: int, side: Side) -> float:
        nonlocal runs
        runs += 1
        slow = math.exp(0.1 * math.sin(phase + runs / 40) + chance.normal(0, NOISE))
        mean_us = 100 * slow / (ratio if side == "candidate" else 1.0)
        options = {**base.system.options, "mean_us": f"{mean_us:.6f}"}
        spec = replace(base, seed=block, system=replace(base.system, options=options))
        run = folder / f"{seed}-{runs}"
        run.mkdir()
        answer = _engine.run(compile_run(spec).to_json(), run, lambda _: None)
        phase_ns = json.loads(answer)["record"]["phases"][-1]
        return 1e9 * 50 / float(phase_ns["end_ns"] - phase_ns["start_ns"])

    return measure


@pytest.mark.parametrize(("ratio", "least", "most"), [(1.0, 0, 2), (1.1, 9, 10)])
def test_the_engine_and_the_simulated_driver_give_the_same_answer(
    tmp_path: Path, ratio: float, least: int, most: int
) -> None:
    asked = PrecisionTarget(within=0.03, find=None, most_blocks=24)
    precision = Precision(within=0.03, find=None, most_blocks=24)
    different = 0
    for seed in range(10):
        logs: list[float] = []

        def standing(log_ratios: object, kept: list[float] = logs) -> object:
            kept[:] = log_ratios  # type: ignore[call-overload]
            return block_progress(kept, precision)

        sides = simulated(tmp_path, seed, ratio)
        for _ in measure_blocks(seed, sides, standing):  # type: ignore[arg-type]
            pass
        different += decide(logs, asked).effect.significant()
    assert least <= different <= most
