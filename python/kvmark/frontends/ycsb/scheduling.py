"""The next step of a YCSB sequence: two stages of repetitions within a time budget.

The first repetition, system by system and from the smallest number of records up, yields the cost
of each step. Five repetitions are the first stage. Their variation alone decides the number of
repetitions that a case needs (as in `kvmark ab`, see :func:`kvmark.stats.decide`); there is no
second decision. Before each repetition, the remaining time is divided among the missing ones.

A sequence is repeated from its beginning up to a place, since each step needs the dataset that the
steps before it left. One more repetition of a step repeats all steps before it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kvmark.experiment.interleaved_ab import Precision, needed_repetitions

_GRACE: Final = 0.1
"""Share of the budget by which a step may overrun its end."""
_LEAST_S: Final = 10.0
"""A step isn't ended before this time: a shorter one has no meaning."""
_FOREVER_S: Final = 1e9
"""Projected time of a step that completed no operation."""
WHOLE: Final = ("load", "reload", "delete")
"""Steps on all records, which never end early."""

_Table: TypeAlias = npt.NDArray[np.float64]
_Counts: TypeAlias = npt.NDArray[np.int64]
"""Values of each step, a row for each system and number of records."""


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


def workload_title(workload: str) -> str:
    """A core workload's letter in upper case, another step's name."""
    return workload.upper() if len(workload) == 1 else workload


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
    #: The name of its system where there are several.
    system: str = ""

    @property
    def is_load(self) -> bool:
        """Whether it loads the dataset."""
        return self.workload in ("load", "reload")

    @property
    def is_whole(self) -> bool:
        """Whether it processes each record once."""
        return self.workload in WHOLE

    @property
    def case(self) -> str:
        """The title of its repetitions."""
        rate = "" if self.target is None else f" at {self.target:g}/s"
        place = f" on {self.system}" if self.system else ""
        return f"{workload_title(self.workload)}{place}{rate}, {self.records:,} records"

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"{self.case}, repetition {self.repetition + 1}"


def affordable(costs: _Table, missing: _Counts, ends: Sequence[int], left_s: float) -> _Counts:
    """Number of further repetitions of each place that fit into the remaining time.

    As many places as possible get all missing repetitions: the cheapest to complete come first, and
    a place that can't be completed gets as many as fit. `ends` holds the number of
    places in a repetition for the sake of a place.
    """
    counts = np.zeros_like(missing)

    def raised(one: int, at: int, count: int) -> _Counts:
        """The counts with at least this count at every place up to the end."""
        limits = np.zeros_like(counts)
        limits[one, : ends[at]] = count
        return np.maximum(counts, limits)

    places = [(int(one), int(at), int(missing[one, at])) for one, at in np.argwhere(missing)]
    for one, at, lacks in sorted(places, key=lambda place: np.vdot(costs, raised(*place))):
        fitting = (raised(one, at, count) for count in range(lacks, counts[one, at], -1))
        counts = next((more for more in fitting if np.vdot(costs, more) <= left_s), counts)
    return counts


@dataclass
class StepLimit:
    """Ends a step that would exceed the budget."""

    #: Longest duration of the whole step.
    limit_s: float
    #: An equal part of the remaining time: each case gets it in its first repetition.
    share_s: float
    #: Duration of the whole step at its present rate.
    projected_s: float = 0.0
    elapsed_s: float = 0.0
    rate_per_s: float = 0.0
    is_over: bool = False

    @property
    def exceeds_budget(self) -> bool:
        """Whether the whole step would exceed the budget."""
        return self.projected_s > self.limit_s

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
    #: Empty where there is only one.
    system: str
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


@dataclass
class _Case:
    """A step of the sequence on one system with one number of records, over all repetitions."""

    #: In the first repetition.
    step: Step
    #: Number of operations, for comparison with a like step.
    work: int
    wanted: int
    #: The same step with the next smaller number of records, or on the first system.
    like: _Case | None
    took_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    projected_s: float | None = None

    @property
    def cost_s(self) -> float:
        """Duration, measured or predicted from that of the like case; 0 if unknown."""
        if self.projected_s is not None:
            return self.projected_s
        if self.took_s or self.like is None:
            return sum(self.took_s) / max(len(self.took_s), 1)
        return self.like.cost_s * self.work / self.like.work


def _rows(
    policy: RepetitionPolicy, steps: Sequence[Step], work: Callable[[Step], int]
) -> list[list[_Case]]:
    """The cases of each system and number of records, the smallest number first."""
    sizes = sorted({step.records for step in steps})
    rows: list[list[_Case]] = []
    for system in dict.fromkeys(step.system for step in steps):
        like: Sequence[_Case | None] = rows[0] if rows else ()
        for size in sizes:
            own = [step for step in steps if (step.system, step.records) == (system, size)]
            pairs = zip(own, like or [None] * len(own), strict=True)
            rows.append([_Case(step, work(step), policy.first, other) for step, other in pairs])
            like = rows[-1]
    return rows


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
        self._rows = _rows(policy, steps, work)
        # A repetition doesn't end between delete and the load after it, if there is one.
        names = [case.step.workload for case in self._rows[0]]
        self._ends = [at + (name == "delete") for at, name in enumerate(names, start=1)]
        self._began_s = clock()
        self._steps = 0
        #: The rest of the present repetition, the present step included.
        self._rest: list[_Case] = []
        #: 1 or 2.
        self.stage = 1

    def steps(self) -> Iterator[Step]:
        """Every step, until all repetitions are done or the budget is used up."""
        for row in self._rows:
            yield from self._repetition(row)
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
        if step.is_whole or left_s == math.inf or self._is_timed:
            return None
        waiting = sum(not case.took_s for row in self._rows for case in row)
        share_s = max(left_s / max(waiting, 1), _LEAST_S)
        return StepLimit(max(left_s, 0.0) + _GRACE * self._policy.budget_s, share_s)

    @property
    def has_costs(self) -> bool:
        """Whether the first repetition on the first system is done with the fewest records."""
        return bool(self._rows[0][-1].took_s)

    @property
    def total(self) -> int:
        """Number of steps, as far as it is decided."""
        if not self.has_costs:
            return self._policy.first * sum(map(len, self._rows))
        counts = self._affordable(self._left_s - self._rest_s)
        return self._steps + max(len(self._rest) - 1, 0) + int(counts.sum())

    def time_left(self) -> tuple[float, bool] | None:
        """The remaining time at the beginning of a step, and whether it is an upper bound."""
        if not self.has_costs:
            return None if self._left_s == math.inf else (max(self._left_s, 0.0), True)
        is_bound = self.stage == 1 and self._policy.within is not None
        wanted = self._policy.most if is_bound else None
        counts = self._affordable(self._left_s - self._rest_s, wanted)
        return self._rest_s + float(np.vdot(self._costs, counts)), is_bound

    def summary(self) -> SequenceRepetitions:
        """The repetitions so far."""
        budget_s = self._policy.budget_s
        return SequenceRepetitions(
            first_stage=self._policy.first,
            most=self._policy.most,
            within=self._policy.within,
            budget_s=None if budget_s == math.inf else budget_s,
            used_s=self._clock() - self._began_s,
            lacking_s=float(np.vdot(self._costs, self._affordable(math.inf))),
            cases=tuple(
                CaseRepetitions(
                    workload=case.step.workload,
                    system=case.step.system,
                    records=case.step.records,
                    target=case.step.target,
                    repetitions=len(case.rates),
                    wanted=case.wanted,
                    seconds=sum(case.took_s),
                    once_s=case.cost_s,
                    cut=case.projected_s is not None,
                )
                for row in self._rows
                for case in row
            ),
        )

    @property
    def _left_s(self) -> float:
        """Rest of the budget; infinite without one."""
        return self._policy.budget_s - (self._clock() - self._began_s)

    @property
    def _rest_s(self) -> float:
        return sum(case.cost_s for case in self._rest)

    @property
    def _costs(self) -> _Table:
        return np.array([[case.cost_s for case in row] for row in self._rows])

    def _repetition(self, cases: Sequence[_Case]) -> Iterator[Step]:
        self._rest = [*cases]
        while self._rest:
            case = self._rest[0]
            self._steps += 1
            began_s = self._clock()
            yield replace(case.step, repetition=len(case.took_s), stage=self.stage)
            case.took_s.append(self._clock() - began_s)
            self._rest.pop(0)

    def _rounds(self, chance: random.Random) -> Iterator[Step]:
        """Rounds over rows with missing repetitions, each in random order."""
        while self._affordable(self._left_s).any():
            order = list(range(len(self._rows)))
            chance.shuffle(order)
            for one in order:
                length = np.count_nonzero(self._affordable(self._left_s)[one])
                yield from self._repetition(self._rows[one][:length])

    def _decide(self) -> None:
        """Decides once, by the first stage, how many repetitions each case needs."""
        first = self._policy.first
        ended = (case for row in self._rows for case in row if len(case.rates) == first)
        cases = [case for case in ended if min(case.rates) > 0]
        precision = Precision(self._policy.within, None, self._policy.most, first)
        counts = needed_repetitions([case.rates for case in cases], precision)
        for case, count in zip(cases, counts, strict=True):
            case.wanted = count

    def _affordable(self, left_s: float, wanted: int | None = None) -> _Counts:
        """Further repetitions of each step; those of the present repetition count as done."""
        present = {id(case) for case in self._rest}
        missing = [
            [(wanted or case.wanted) - len(case.took_s) - (id(case) in present) for case in row]
            for row in self._rows
        ]
        return affordable(self._costs, np.maximum(missing, 0), self._ends, left_s)
