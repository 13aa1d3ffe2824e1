"""Repetitions of a YCSB sequence within its time budget, on a simulated clock."""

from __future__ import annotations

import math
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvmark.errors import Interrupted
from kvmark.experiment.interleaved_ab import Precision, needed_repetitions
from kvmark.frontends.ycsb import scheduling
from kvmark.frontends.ycsb.sequence import SEQUENCE, YcsbStudy
from kvmark.frontends.ycsb.workloads import read_ycsb
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.run.context import make_run_context
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.url import parse_system_url

Cost = Callable[[scheduling.Step], float]
PUBLISHED_SIZES = (1000, 3000, 6000, 10000)


def make_study(**fields: Any) -> YcsbStudy:
    defaults = {
        "systems": {"": parse_system_url("null:")}, "properties": read_ycsb([], []),
        "operations": None,
        "targets": (None,), "seed": 1, "workloads": SEQUENCE, "records": (1000, 3000),
        "policy": scheduling.RepetitionPolicy(),
    }  # fmt: skip
    return YcsbStudy(**{**defaults, **fields})


class SimulatedSequence:
    """A sequence on a clock that each step advances by its cost."""

    def __init__(
        self,
        cost: Cost,
        *,
        needs: Callable[[int], int] = lambda _: 5,
        rate: float = 1000.0,
        **fields: Any,
    ):
        self.now_s, self.steps, self.decisions = 0.0, list[scheduling.Step](), 0
        self._needs = needs
        self.study = study = make_study(**fields)
        self.scheduler = scheduling.Scheduler(
            study.policy, study.first_steps(), study.work, lambda: self.now_s,
            seed=study.seed, is_timed=study.is_timed,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scheduling, "needed_repetitions", self._decide)
            for step in self.scheduler.steps():
                self.steps.append(step)
                limit = self.scheduler.limit(step)
                self.now_s += self._took(limit, cost(step))
                cut = {} if limit is None else limit.as_json()
                self.scheduler.end_step(rate, cut.get("projected_s"))

    def _took(self, limit: scheduling.StepLimit | None, seconds: float) -> float:
        if limit is None:
            return seconds
        limit.projected_s = seconds
        limit.is_over = limit.exceeds_budget and seconds > limit.share_s
        return limit.share_s if limit.is_over else seconds

    def _decide(self, cases: Sequence[Sequence[float]], _: Precision) -> list[int]:
        self.decisions += bool(cases)
        most = self.study.policy.most
        return [min(self._needs(place), most) for place in range(len(cases))]

    @property
    def counts(self) -> dict[tuple[str, int], int]:
        return dict(Counter((step.workload, step.records) for step in self.steps))

    def counts_at(self, records: int) -> list[int]:
        """Repetitions of each step of the sequence at one number of records."""
        return [self.counts[workload, records] for workload in SEQUENCE]

    @property
    def cases(self) -> dict[tuple[str, int], scheduling.CaseRepetitions]:
        return {(case.workload, case.records): case for case in self.scheduler.summary().cases}


def second(_: scheduling.Step) -> float:
    return 1.0


def redis(step: scheduling.Step) -> float:
    """A store that needs 12 s for a thousand scans and little for other operations."""
    return step.records / (85 if step.workload == "e" else 8000)


def slow(workload: str) -> Cost:
    return lambda step: 12_000.0 if step.workload == workload else 1.0


def within(budget_s: float) -> scheduling.RepetitionPolicy:
    return scheduling.RepetitionPolicy(budget_s=budget_s)


FIVE = [5] * 9


@pytest.mark.parametrize(
    ("needs", "fields", "small", "large"),
    [
        ({}, {}, FIVE, FIVE),
        (dict.fromkeys(range(18), 12), {}, [12] * 9, [12] * 9),
        # A with 1000 records is the second case, with 3000 the eleventh; each needs the load.
        ({1: 9, 10: 99}, {}, [9] * 2 + [5] * 7, [20] * 2 + [5] * 7),
        # No repetition ends between the delete and the reload.
        ({6: 9}, {}, [9] * 8 + [5], FIVE),
        # A fixed number, and no successful operation.
        ({0: 20}, {"policy": scheduling.RepetitionPolicy(3, 3, None)}, [3] * 9, [3] * 9),
        ({0: 20}, {"rate": 0.0}, FIVE, FIVE),
    ],
)
def test_a_case_with_variation_runs_as_often_as_it_needs_up_to_twenty_times(
    needs: dict[int, int], fields: dict[str, Any], small: list[int], large: list[int]
) -> None:
    done = SimulatedSequence(second, needs=lambda place: needs.get(place, 5), **fields)
    assert (done.counts_at(1000), done.counts_at(3000)) == (small, large)
    assert {step.stage for step in done.steps if step.repetition >= 5} <= {2}
    assert {step.stage for step in done.steps if step.repetition < 5} == {1}
    # The number is decided once, if at all.
    assert done.decisions == (0 if fields else 1)


def test_every_repetition_begins_with_an_empty_system_and_keeps_the_published_order() -> None:
    done = SimulatedSequence(second, needs=lambda place: 5 + place % 4)
    sequence: list[str] = []
    for step in done.steps:
        assert step.fresh == (step.workload == "load")
        sequence = [*sequence, step.workload] if not step.fresh else [step.workload]
        assert tuple(sequence) == SEQUENCE[: len(sequence)]


def test_systems_take_turns_and_the_first_one_predicts_the_time_of_the_others() -> None:
    url = parse_system_url("null:")
    systems = {"fast": url, "slow": url}
    cost = {"fast": 1.0, "slow": 3.0}
    done = SimulatedSequence(
        lambda step: cost[step.system], systems=systems, records=(1000,), policy=within(230)
    )
    firsts = [step.system for step in done.steps if step.fresh]
    assert firsts[:2] == ["fast", "slow"]
    assert {step.repetition for step in done.steps} == set(range(5))
    # In each block each system has its turn, in an order that changes.
    turns = [tuple(firsts[at : at + 2]) for at in range(0, 10, 2)]
    assert {tuple(sorted(turn)) for turn in turns} == {("fast", "slow")}
    assert len(set(turns[1:])) == 2
    assert done.now_s == 5 * 9 * 4


def test_the_first_repetition_starts_with_the_smallest_number_of_records() -> None:
    done = SimulatedSequence(second, records=(3000, 1000, 6000))
    assert [step.records for step in done.steps[:27:9]] == [1000, 3000, 6000]
    later = {tuple(step.records for step in done.steps[at : at + 27 : 9]) for at in (27, 54, 81)}
    assert len(later) > 1


def test_the_budget_cuts_expensive_cases_first() -> None:
    done = SimulatedSequence(redis, records=PUBLISHED_SIZES, policy=within(600))
    assert done.now_s <= 600
    assert [done.counts["e", size] for size in PUBLISHED_SIZES] == [5, 5, 2, 1]
    assert {done.counts[name, size] for name, size in done.counts if name != "e"} == {5}


def test_the_missing_time_is_enough_for_all_repetitions() -> None:
    done = SimulatedSequence(redis, records=PUBLISHED_SIZES, policy=within(600))
    assert done.cases["e", 10000].repetitions == 1
    course = done.scheduler.summary()
    needed_s = course.used_s + course.lacking_s
    assert needed_s > 600
    again = SimulatedSequence(redis, records=PUBLISHED_SIZES, policy=within(needed_s + 1))
    assert set(again.counts.values()) == {5}


def half_hour(_: scheduling.Step) -> float:
    return 1800.0


@pytest.mark.parametrize(
    ("cost", "fields", "ended", "repetitions"),
    [
        (second, {"policy": within(3)}, "", {1}),
        (slow("e"), {"policy": within(600), "records": (1_000_000,)}, "e", {1}),
        (slow("a"), {"policy": within(600), "records": (1000,)}, "a", {1, 5}),
        # Loads and steps with a duration are never ended.
        (half_hour, {"policy": within(60)}, "abcfde", {1}),
        (half_hour, {"policy": within(60), "overrides": {"duration_ns": 1800 * 10**9}}, "", {1}),
        (redis, {"needs": lambda _: 20, "records": (1_000_000,)}, "", {20}),
    ],
    ids=["short budget", "too long", "long", "loads", "with a duration", "without a budget"],
)
def test_cases_that_exceed_their_share_of_the_budget_are_ended(
    cost: Cost, fields: dict[str, Any], ended: str, repetitions: set[int]
) -> None:
    done = SimulatedSequence(cost, **fields)
    assert {workload for (workload, _), case in done.cases.items() if case.cut} == {*ended}
    assert set(done.counts.values()) == repetitions
    if ended == "e":
        assert done.now_s == pytest.approx(600)
    if ended == "a":
        # It leaves an equal share to each later case.
        assert done.cases["a", 1000].seconds == pytest.approx(599 / 8)


def test_a_duration_is_not_cut_short_by_the_operations_of_a_core_workload() -> None:
    done = SimulatedSequence(second, overrides={"duration_ns": 10**9})
    specs = {step.workload: done.study.spec(step, step.records) for step in done.steps}
    assert {specs[name].operations for name in "abcdef"} == {None}
    assert {specs[name].duration_ns for name in "abcdef"} == {10**9}


@pytest.mark.parametrize("seed", range(40))
def test_no_sequence_exceeds_the_budget_but_for_the_first_repetition(seed: int) -> None:
    chance = random.Random(seed)
    costs = {(name, size): chance.expovariate(1) for name in SEQUENCE for size in (1000, 3000)}
    needs = [chance.randint(5, 20) for _ in range(18)]
    budget_s = chance.uniform(10, 400)
    done = SimulatedSequence(
        lambda step: costs[step.workload, step.records],
        needs=needs.__getitem__,
        policy=within(budget_s),
    )
    assert done.now_s <= max(budget_s, sum(costs.values())) + 1e-6
    for size in (1000, 3000):
        assert done.counts_at(size) == sorted(done.counts_at(size), reverse=True)


def test_time_completes_as_many_cases_as_possible() -> None:
    def counts(missing: list[int], left_s: float) -> Any:
        costs = np.array([[1.0, 1.0, 10.0]])
        return scheduling.affordable(costs, np.array([missing]), [1, 2, 3], left_s).tolist()

    assert counts([4, 4, 4], 8.0) == [[4, 4, 0]]
    assert counts([4, 4, 4], 30.0) == [[4, 4, 2]]
    assert counts([0, 0, 4], 30.0) == [[2, 2, 2]]
    assert counts([4, 4, 4], math.inf) == [[4, 4, 4]]


def test_repetitions_are_computed_as_in_ab() -> None:
    quiet, noisy = (100.0, 100.1, 99.9, 100.2, 100.0), (100.0, 110.0, 90.0, 120.0, 95.0)
    some = (100.0, 105.0, 97.0, 103.0, 95.0)
    precision = Precision(0.05, None, 20, 5)
    # ⌈(t₀.₉₇₅ with 4 degrees of freedom · s / ln 1.05)²⌉ with s = 0.0407 of the logarithms
    assert needed_repetitions([quiet, noisy, some], precision) == [5, 20, 6]


def test_an_ended_step_keeps_its_measurement(tmp_path: Path) -> None:
    overrides = {"interval_ns": 20_000_000}
    study = make_study(records=(1000,), operations=10**12, workloads=("c",), overrides=overrides)
    plan = compile_run(study.spec(study.first_steps()[0], 1000))
    limit = scheduling.StepLimit(limit_s=1.0, share_s=0.1)
    before = signal.getsignal(signal.SIGINT)
    with LocalGenerator() as generator:
        setting = make_run_context(("kvmark",), plan, generator, Records(tmp_path))
        carried = execute(
            plan, {}, setting, lambda _, told: limit.watch(told), may_go_on=limit.may_go_on
        )
    assert limit.is_over
    assert limit.projected_s > 1.0
    assert isinstance(carried.failure, Interrupted)
    assert carried.manifest.rate > 0
    assert signal.getsignal(signal.SIGINT) is before
