"""The next step of a YCSB sequence: two stages of repetitions within a time budget.

The first repetition, from the smallest number of records up, yields the cost of each step. Five
repetitions are the first stage. Their variation alone decides the number of repetitions that a case
needs (as in `kvmark ab`, see :func:`kvmark.stats.decide`); there is no second decision. Before
each repetition, the remaining time is divided among the missing repetitions.

A sequence is repeated from its beginning up to a place, since each step needs the dataset that the
steps before it left. One more repetition of a step repeats all steps before it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from kvmark.experiment.interleaved_ab import Precision, needed_repetitions

_GRACE: Final = 0.1
"""Share of the budget by which a step may overrun its end."""
_LEAST_S: Final = 10.0
"""A step isn't ended before this time: a shorter one has no meaning."""
_FOREVER_S: Final = 1e9
"""Projected time of a step that completed no operation."""
_WHOLE: Final = ("load", "reload", "delete")
"""Steps that are never ended early."""


@dataclass(frozen=True, slots=True)
class RepetitionPolicy:
    """How often each case is repeated."""

    #: Repetitions of the first stage.
    first: int = 5
    #: Largest number of repetitions; equal to `first` if the number is fixed.
    most: int = 20
    #: Target half-width of the throughput's interval, as a share; None if the number is fixed.
    within: float | None = 0.05
    #: Time limit of the sequence.
    budget_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Step:
    """A run of a sequence."""

    workload: str
    records: int
    repetition: int
    #: Operations per second; None for no limit.
    target: float | None
    #: Whether the system must be empty: the sequence's first load.
    fresh: bool
    #: 1 for the first repetitions, 2 for those that their variation required.
    stage: int = 1

    @property
    def is_load(self) -> bool:
        """Whether it loads the dataset."""
        return self.workload in ("load", "reload")

    @property
    def case(self) -> str:
        """The title of its repetitions."""
        rate = "" if self.target is None else f" at {self.target:g}/s"
        name = self.workload.upper() if len(self.workload) == 1 else self.workload
        return f"{name}{rate}, {self.records:,} records"

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"{self.case}, repetition {self.repetition + 1}"


def affordable(
    costs: Sequence[Sequence[float]],
    missing: Sequence[Sequence[int]],
    ends: Sequence[int],
    left_s: float,
) -> list[list[int]]:
    """Number of further repetitions of each place that fit into the remaining time.

    As many places as possible get all missing repetitions: the cheapest to complete come first, and
    a place that can't be completed gets as many as fit. `ends` holds the place at which a
    repetition for the sake of a place may end.
    """
    counts = [[0] * len(row) for row in costs]

    def extra_s(one: int, at: int, count: int) -> float:
        """Time to raise the count of every place up to the end."""
        steps = zip(counts[one][: ends[at] + 1], costs[one], strict=False)
        return sum(max(count - done, 0) * cost_s for done, cost_s in steps)

    places = [
        (extra_s(one, at, lacks), one, at)
        for one, row in enumerate(missing)
        for at, lacks in enumerate(row)
        if lacks
    ]
    for _, one, at in sorted(places):
        for count in range(missing[one][at], counts[one][at], -1):
            needed_s = extra_s(one, at, count)
            if needed_s <= left_s:
                left_s -= needed_s
                raised = counts[one][: ends[at] + 1]
                counts[one][: ends[at] + 1] = [max(done, count) for done in raised]
                break
    return counts


@dataclass
class StepLimit:
    """Ends a step that would exceed the budget."""

    left_s: float
    #: An equal part of the remaining time: each case gets it in its first repetition.
    share_s: float
    grace_s: float
    #: Duration of the whole step at its present rate.
    projected_s: float = 0.0
    elapsed_s: float = 0.0
    rate_per_s: float = 0.0
    is_over: bool = False

    @property
    def exceeds_budget(self) -> bool:
        """Whether the whole step would exceed the budget."""
        return self.projected_s > self.left_s + self.grace_s

    def watch(self, progress: Mapping[str, Any]) -> None:
        """Takes the engine's progress."""
        expected, completed = progress["expected_operations"], progress["completed"]
        if not expected or progress["phase_name"] != "measure" or self.is_over:
            return
        self.elapsed_s = progress["elapsed_ns"] / 1e9
        self.rate_per_s = completed / self.elapsed_s if self.elapsed_s else 0.0
        self.projected_s = self.elapsed_s * expected / completed if completed else math.inf
        self.is_over = self.exceeds_budget and self.elapsed_s >= self.share_s

    def may_go_on(self) -> bool:
        return not self.is_over

    def failure(self) -> None:
        """None: a step that was ended early counts as whole, with its projected duration."""

    def as_json(self) -> Mapping[str, Any]:
        """The projected duration, if the step was ended."""
        return {"projected_s": min(self.projected_s, _FOREVER_S)} if self.is_over else {}


@dataclass(frozen=True, slots=True)
class CaseRepetitions:
    """Repetitions of a case."""

    workload: str
    records: int
    target: float | None
    repetitions: int
    #: Number of repetitions that its interval needs, at most `RepetitionPolicy.most`.
    wanted: int
    seconds: float
    #: Duration of one repetition, projected if it was ended.
    once_s: float
    #: Whether the budget ended its run before all operations were done.
    cut: bool


@dataclass(frozen=True, slots=True)
class SequenceRepetitions:
    """Repetitions of a sequence, and its time budget."""

    first_stage: int
    most: int
    #: Target half-width of the interval, as a share; None for a fixed number.
    within: float | None
    #: None without a limit.
    budget_s: float | None
    used_s: float
    #: Duration of all missing repetitions.
    lacking_s: float
    cases: tuple[CaseRepetitions, ...]

    def once_s(self) -> Mapping[str, float]:
        """Duration of one repetition of each workload at all sizes."""
        seconds: dict[str, float] = {}
        for case in self.cases:
            seconds[case.workload] = seconds.get(case.workload, 0.0) + case.once_s
        return seconds


@dataclass
class _Case:
    """A step of the sequence at one number of records, over all repetitions."""

    #: In the first repetition.
    step: Step
    #: Number of operations, for comparison with the same step at another number of records.
    work: int
    wanted: int
    took_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    projected_s: float | None = None

    @property
    def cost_s(self) -> float | None:
        if self.projected_s is not None:
            return self.projected_s
        return sum(self.took_s) / len(self.took_s) if self.took_s else None


class Scheduler:
    """Yields the steps one after the other, and takes the result of each."""

    def __init__(
        self,
        policy: RepetitionPolicy,
        steps: Sequence[Step],
        work: Callable[[Step], int],
        clock: Callable[[], float],
        *,
        seed: int,
        is_timed: bool,
    ) -> None:
        """`steps` are those of the first repetition; `work` is their number of operations."""
        self._policy, self._seed, self._is_timed = policy, seed, is_timed
        self._clock = clock
        self._rows = [
            [_Case(step, work(step), policy.first) for step in steps if step.records == size]
            for size in sorted({step.records for step in steps})
        ]
        workloads = [case.step.workload for case in self._rows[0]]
        # A repetition doesn't end between delete and the load after it.
        self._ends = [
            at + (workload == "delete" and at + 1 < len(workloads))
            for at, workload in enumerate(workloads)
        ]
        self._repetitions = [0] * len(self._rows)
        self._began_s = clock()
        self._steps = 0
        #: The rest of the present repetition, the present step included.
        self._rest: list[_Case] = []
        #: 1 or 2.
        self.stage = 1

    def steps(self) -> Iterator[Step]:
        """Every step, until all repetitions are done or the budget is used up."""
        for one in range(len(self._rows)):
            yield from self._repetition(one, len(self._ends) - 1)
        chance = random.Random(self._seed)  # noqa: S311 - an order, not a secret
        yield from self._rounds(chance)
        if self._policy.within is not None:
            self.stage = 2
            self._decide()
            yield from self._rounds(chance)

    def end_step(self, rate: float, projected_s: float | None = None) -> None:
        """Takes the throughput of the last step, and its projected duration if it was ended."""
        case = self._rest[0]
        case.rates.append(rate)
        if projected_s is not None:
            case.projected_s = projected_s

    def limit(self, step: Step) -> StepLimit | None:
        """The limit of a step; None if it must be whole or has a duration."""
        left_s = self._left_s
        if step.workload in _WHOLE or left_s == math.inf or self._is_timed:
            return None
        waiting = sum(not case.took_s for row in self._rows for case in row)
        share_s = max(left_s / max(waiting, 1), _LEAST_S)
        return StepLimit(max(left_s, 0.0), share_s, _GRACE * self._policy.budget_s)

    @property
    def _left_s(self) -> float:
        """Rest of the budget; infinite without one."""
        return self._policy.budget_s - (self._clock() - self._began_s)

    @property
    def total(self) -> int:
        """Number of steps, as far as it is decided."""
        costs = self.costs()
        if costs is None:
            return self._policy.first * sum(map(len, self._rows))
        counts = self._affordable(costs, self._left_s - self._rest_s)
        return self._steps + max(len(self._rest) - 1, 0) + sum(map(sum, counts))

    def time_left(self) -> tuple[float, bool] | None:
        """The remaining time at the beginning of a step, and whether it is an upper bound."""
        costs = self.costs()
        if costs is None:
            return None if self._left_s == math.inf else (max(self._left_s, 0.0), True)
        is_bound = self.stage == 1 and self._policy.within is not None
        wanted = self._policy.most if is_bound else None
        counts = self._affordable(costs, self._left_s - self._rest_s, wanted)
        return self._rest_s + float(np.vdot(costs, counts)), is_bound

    def summary(self) -> SequenceRepetitions:
        """The repetitions so far."""
        costs = self.costs() or [[case.cost_s or 0.0 for case in row] for row in self._rows]
        budget_s = self._policy.budget_s
        return SequenceRepetitions(
            first_stage=self._policy.first,
            most=self._policy.most,
            within=self._policy.within,
            budget_s=None if budget_s == math.inf else budget_s,
            used_s=self._clock() - self._began_s,
            lacking_s=float(np.vdot(costs, self._affordable(costs, math.inf))),
            cases=tuple(
                CaseRepetitions(
                    workload=case.step.workload,
                    records=case.step.records,
                    target=case.step.target,
                    repetitions=len(case.rates),
                    wanted=case.wanted,
                    seconds=sum(case.took_s),
                    once_s=cost_s,
                    cut=case.projected_s is not None,
                )
                for row, row_costs in zip(self._rows, costs, strict=True)
                for case, cost_s in zip(row, row_costs, strict=True)
            ),
        )

    def _repetition(self, one: int, end: int) -> Iterator[Step]:
        repetition = self._repetitions[one]
        self._repetitions[one] += 1
        self._rest = self._rows[one][: end + 1]
        while self._rest:
            self._steps += 1
            began_s = self._clock()
            yield replace(self._rest[0].step, repetition=repetition, stage=self.stage)
            self._rest.pop(0).took_s.append(self._clock() - began_s)

    def _rounds(self, chance: random.Random) -> Iterator[Step]:
        """Rounds over the sizes with missing repetitions, each in random order."""
        order = range(len(self._rows))
        while any(self._end(one) is not None for one in order):
            shuffled = list(order)
            chance.shuffle(shuffled)
            for one in shuffled:
                end = self._end(one)
                if end is not None:
                    yield from self._repetition(one, end)

    def _end(self, one: int) -> int | None:
        """The last place of the next repetition at a size; None if there is no further one."""
        costs = self.costs()
        counts = [] if costs is None else self._affordable(costs, self._left_s)[one]
        return max((at for at, count in enumerate(counts) if count), default=None)

    @property
    def _rest_s(self) -> float:
        return sum(case.cost_s or 0.0 for case in self._rest)

    def _decide(self) -> None:
        """Decides once, by the first stage, how many repetitions each case needs."""
        first = self._policy.first
        cases = [
            case
            for row in self._rows
            for case in row
            if len(case.rates) >= first and min(case.rates[:first]) > 0
        ]
        rates = [case.rates[:first] for case in cases]
        precision = Precision(self._policy.within, None, self._policy.most, first)
        counts = needed_repetitions(rates, precision) if cases else ()
        for case, count in zip(cases, counts, strict=True):
            case.wanted = count

    def _affordable(
        self, costs: Sequence[Sequence[float]], left_s: float, wanted: int | None = None
    ) -> list[list[int]]:
        """Further repetitions of each step; those of the present repetition count as done."""
        present = {id(case) for case in self._rest}
        missing = [
            [
                max((wanted or case.wanted) - len(case.took_s) - (id(case) in present), 0)
                for case in row
            ]
            for row in self._rows
        ]
        return affordable(costs, missing, self._ends, left_s)

    def costs(self) -> list[list[float]] | None:
        """Duration of each step, measured or predicted from the next smaller number of records.

        None if one is unknown.
        """
        costs = [[self._cost_s(at, case) for at, case in enumerate(row)] for row in self._rows]
        known = [[cost for cost in row if cost is not None] for row in costs]
        return known if sum(map(len, known)) == sum(map(len, costs)) else None

    def _cost_s(self, at: int, case: _Case) -> float | None:
        measured = [row[at] for row in self._rows if row[at].cost_s is not None]
        if case.cost_s is not None or not measured:
            return case.cost_s
        return (measured[-1].cost_s or 0.0) * case.work / max(measured[-1].work, 1)
