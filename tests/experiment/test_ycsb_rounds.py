"""Repetitions and time budget of a YCSB sequence, on a simulated clock."""

from __future__ import annotations

import math
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import Interrupted
from kvmark.experiment.interleaved_ab import Precision, needed_repetitions
from kvmark.frontends.ycsb.rounds import CaseCourse, Limit, Rounds, affordable, price
from kvmark.frontends.ycsb.steps import SEQUENCE, Repeating, Step, YcsbStudy
from kvmark.frontends.ycsb.workloads import read_ycsb
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.run.context import make_run_context
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.url import parse_system_url

Cost = Callable[[Step], float]


class Going:
    """A sequence carried out on a clock that moves by what each step costs."""

    def __init__(
        self,
        cost: Cost,
        *,
        needs: Callable[[int], int] = lambda _: 5,
        rate: float = 1000.0,
        **asked: Any,
    ):
        self.now_s, self.steps, self.looks = 0.0, list[Step](), 0
        self._needs = needs
        words = {"workloads": SEQUENCE, "records": (1000, 3000), "repeating": Repeating()}
        self.study = YcsbStudy(
            system=parse_system_url("null:"),
            properties=read_ycsb([], []),
            operations=None,
            targets=(None,),
            seed=1,
            **{**words, **asked},
        )
        self.rounds = Rounds(self.study, self._look, lambda: self.now_s)
        for step in self.rounds.steps():
            self.steps.append(step)
            limit = self.rounds.limit(step)
            self.now_s += self._took(limit, cost(step))
            told = {} if limit is None else limit.told()
            self.rounds.ended(rate, told.get("projected_s"))

    def _took(self, limit: Limit | None, seconds: float) -> float:
        if limit is None:
            return seconds
        limit.projected_s = seconds
        if limit.is_hopeless and seconds > limit.share_s:
            limit.is_over = True
            return limit.share_s
        return seconds

    def _look(self, cases: Sequence[Sequence[float]], asked: Repeating) -> list[int]:
        self.looks += 1
        return [min(self._needs(place), asked.most) for place in range(len(cases))]

    @property
    def counts(self) -> dict[tuple[str, int], int]:
        return dict(Counter((step.workload, step.records) for step in self.steps))

    def of(self, records: int) -> list[int]:
        """How often each step of the sequence ran at one number of records."""
        return [self.counts[workload, records] for workload in SEQUENCE]

    def case(self, workload: str, records: int) -> CaseCourse:
        cases = self.rounds.course().cases
        return next(case for case in cases if (case.workload, case.records) == (workload, records))


def second(_: Step) -> float:
    return 1.0


def redis(step: Step) -> float:
    """A store that takes 12 s for a thousand scans and next to nothing for the rest."""
    return step.records / (85 if step.workload == "e" else 8000)


def within(budget_s: float) -> Repeating:
    return Repeating(budget_s=budget_s)


def test_cases_with_little_variation_have_five_repetitions() -> None:
    done = Going(second)
    assert set(done.counts.values()) == {5}
    assert {step.stage for step in done.steps} == {1}


def test_a_case_with_variation_has_up_to_twenty_repetitions() -> None:
    done = Going(second, needs=lambda place: {1: 9, 10: 99}.get(place, 5))
    # A with 1000 records is the second case, with 3000 the eleventh; each needs the load before it.
    assert done.of(1000) == [9, 9, 5, 5, 5, 5, 5, 5, 5]
    assert done.of(3000) == [20, 20, 5, 5, 5, 5, 5, 5, 5]
    assert {step.stage for step in done.steps if step.repetition >= 5} == {2}


def test_the_variation_is_evaluated_once() -> None:
    assert Going(second, needs=lambda _: 12).looks == 1


def test_a_fixed_number_of_repetitions_ignores_variation() -> None:
    done = Going(second, needs=lambda _: 20, repeating=Repeating(3, 3, None))
    assert set(done.counts.values()) == {3}
    assert done.looks == 0


def test_every_repetition_begins_with_an_empty_system_and_keeps_the_published_order() -> None:
    done = Going(second, needs=lambda place: 5 + place % 4)
    sequence: list[str] = []
    for step in done.steps:
        assert step.fresh == (step.workload == "load")
        sequence = [*sequence, step.workload] if not step.fresh else [step.workload]
        assert tuple(sequence) == SEQUENCE[: len(sequence)]


def test_no_repetition_ends_between_the_delete_and_the_reload() -> None:
    done = Going(second, needs=lambda place: 9 if place == 6 else 5)
    assert done.of(1000) == [9, 9, 9, 9, 9, 9, 9, 9, 5]


def test_the_first_repetition_goes_from_the_smallest_number_of_records_up() -> None:
    done = Going(second, records=(3000, 1000, 6000))
    assert [step.records for step in done.steps[:27:9]] == [1000, 3000, 6000]
    later = {tuple(step.records for step in done.steps[at : at + 27 : 9]) for at in (27, 54, 81)}
    assert len(later) > 1


def test_the_slowest_cases_are_cut_first() -> None:
    done = Going(redis, records=(1000, 3000, 6000, 10000), repeating=within(600))
    assert done.now_s <= 600
    assert [done.counts["e", size] for size in (1000, 3000, 6000, 10000)] == [5, 5, 2, 1]
    assert {done.counts[name, size] for name, size in done.counts if name != "e"} == {5}


def test_a_case_without_time_is_reported_with_the_time_it_needs() -> None:
    course = Going(redis, records=(1000, 3000, 6000, 10000), repeating=within(600)).rounds.course()
    short = {(case.workload, case.records): case.repetitions for case in course.cases}
    assert short["e", 10000] == 1
    assert course.used_s + course.lacking_s > 600
    again = Going(
        redis,
        records=(1000, 3000, 6000, 10000),
        repeating=within(course.used_s + course.lacking_s + 1),
    )
    assert set(again.counts.values()) == {5}


def test_a_budget_that_is_too_short_for_anything_still_gives_each_case_one_run() -> None:
    done = Going(second, repeating=within(3))
    assert set(done.counts.values()) == {1}
    assert not any(case.cut for case in done.rounds.course().cases)


def test_a_case_beyond_the_budget_is_ended_and_reported() -> None:
    def slow(step: Step) -> float:
        return 12_000.0 if step.workload == "e" else 1.0

    done = Going(slow, records=(1_000_000,), repeating=within(600))
    assert done.now_s == pytest.approx(600)
    assert done.case("e", 1_000_000).cut
    assert done.counts["e", 1_000_000] == 1
    assert done.case("a", 1_000_000).repetitions == 1


def test_a_case_that_takes_too_long_leaves_an_equal_part_to_each_that_comes_after() -> None:
    def slow(step: Step) -> float:
        return 12_000.0 if step.workload == "a" else 1.0

    done = Going(slow, records=(1000,), repeating=within(600))
    assert done.case("a", 1000).seconds == pytest.approx(599 / 8)
    assert done.case("e", 1000).repetitions == 1


def test_timed_steps_and_loads_are_never_ended() -> None:
    def slow(_: Step) -> float:
        return 1800.0

    timed = Going(slow, repeating=within(60), more={"duration_ns": 1800 * 10**9})
    assert not any(case.cut for case in timed.rounds.course().cases)
    whole = Going(slow, repeating=within(60))
    cut = {case.workload for case in whole.rounds.course().cases if case.cut}
    assert cut == {*"abcfde"}


def test_a_duration_is_not_cut_short_by_the_operations_of_a_core_workload() -> None:
    done = Going(second, more={"duration_ns": 10**9})
    specs = {step.workload: done.study.spec(step, step.records) for step in done.steps}
    assert {specs[name].operations for name in "abcdef"} == {None}
    assert {specs[name].duration_ns for name in "abcdef"} == {10**9}


def test_without_a_budget_nothing_is_ended() -> None:
    done = Going(redis, needs=lambda _: 20, records=(1_000_000,), repeating=Repeating())
    assert set(done.counts.values()) == {20}


def test_cases_in_which_nothing_succeeded_ask_for_no_more() -> None:
    done = Going(second, needs=lambda _: 20, rate=0.0)
    assert set(done.counts.values()) == {5}
    assert done.looks == 0


@pytest.mark.parametrize("seed", range(40))
def test_no_budget_is_left_but_for_the_first_repetition(seed: int) -> None:
    chance = random.Random(seed)
    costs = {(name, size): chance.expovariate(1) for name in SEQUENCE for size in (1000, 3000)}
    needs = [chance.randint(5, 20) for _ in range(18)]
    budget_s = chance.uniform(10, 400)
    done = Going(
        lambda step: costs[step.workload, step.records],
        needs=needs.__getitem__,
        repeating=within(budget_s),
    )
    assert done.now_s <= max(budget_s, sum(costs.values())) + 1e-6
    for size in (1000, 3000):
        assert done.of(size) == sorted(done.of(size), reverse=True)


def test_time_goes_to_as_many_places_as_can_be_completed() -> None:
    costs, ends = [[1.0, 1.0, 10.0]], [0, 1, 2]
    assert affordable(costs, [[4, 4, 4]], ends, 8.0) == [[4, 4, 0]]
    assert affordable(costs, [[4, 4, 4]], ends, 30.0) == [[4, 4, 2]]
    assert affordable(costs, [[0, 0, 4]], ends, 30.0) == [[2, 2, 2]]
    assert affordable(costs, [[4, 4, 4]], ends, math.inf) == [[4, 4, 4]]
    assert price(costs, [[4, 4, 2]]) == 28.0


def test_the_mathematics_is_that_of_ab() -> None:
    quiet, noisy = (100.0, 100.1, 99.9, 100.2, 100.0), (100.0, 110.0, 90.0, 120.0, 95.0)
    some = (100.0, 105.0, 97.0, 103.0, 95.0)
    precision = Precision(0.05, None, 20, 5)
    # ⌈(t₀.₉₇₅ with 4 degrees of freedom · s / ln 1.05)²⌉ with s = 0.0407 of the logarithms
    assert needed_repetitions([quiet, noisy, some], precision) == [5, 20, 6]


def test_an_ended_step_keeps_its_measurements(tmp_path: Path) -> None:
    study = YcsbStudy(
        system=parse_system_url("null:"),
        properties=read_ycsb([], []),
        records=(1000,),
        operations=10**12,
        workloads=("c",),
        targets=(None,),
        repeating=Repeating(),
        seed=1,
        more={"interval_ns": 20_000_000},
    )
    plan = compile_run(study.spec(study.first()[0], 1000))
    limit = Limit(left_s=1.0, share_s=0.1, grace_s=0.0)
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
