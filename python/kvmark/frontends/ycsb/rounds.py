"""Which step of a YCSB sequence comes next: two stages of repetitions within a budget of time.

The first repetition of everything, from the smallest number of records up, says what each step
costs. Five make the first stage; their scatter alone says how many a case needs (the mathematics is
that of `kvmark ab`, see :mod:`kvmark.stats.sequential`), and nobody looks again. Before each
repetition the time that is left is shared among what is still wanted.

A sequence is repeated from its beginning up to a place, because each step needs the dataset that
the ones before it left. So one more repetition of a step brings one of each step before it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvmark.frontends.ycsb.steps import LOADS, Repeating, Step, YcsbStudy

_Look = Callable[[Sequence[Sequence[float]], Repeating], Sequence[int]]
"""From the throughputs of the first stage, case by case, to the repetitions that each needs."""
_GRACE: Final = 0.1
"""A step that would end within so much of the budget after its end is let go on."""
_LEAST_S: Final = 10.0
"""No step is ended before so many seconds: less says nothing."""
_FOREVER_S: Final = 1e9
"""What a step would take that did no operation."""


def affordable(
    costs: Sequence[Sequence[float]],
    lacking: Sequence[Sequence[int]],
    ends: Sequence[int],
    left_s: float,
) -> list[list[int]]:
    """How many more repetitions go through each place when so much time is left.

    As many places as possible get all that they lack: the cheapest to complete come first, and one
    that can't be completed gets as many as fit. `ends` says at which place a repetition that is
    wanted for the sake of a place may end.
    """
    more = [[0] * len(row) for row in costs]
    places = [(one, at) for one, row in enumerate(lacking) for at, lacks in enumerate(row) if lacks]
    none = [0] * len(ends)
    whole = {
        (one, at): _raise_price(costs[one], none, ends[at], lacking[one][at]) for one, at in places
    }
    for one, at in sorted(places, key=whole.__getitem__):
        for count in range(lacking[one][at], more[one][at], -1):
            extra_s = _raise_price(costs[one], more[one], ends[at], count)
            if extra_s <= left_s:
                left_s -= extra_s
                for before in range(ends[at] + 1):
                    more[one][before] = max(more[one][before], count)
                break
    return more


def price(costs: Sequence[Sequence[float]], more: Sequence[Sequence[int]]) -> float:
    """What so many repetitions take."""
    return sum(
        count * cost
        for counts, row in zip(more, costs, strict=True)
        for count, cost in zip(counts, row, strict=True)
    )


def _raise_price(costs: Sequence[float], more: Sequence[int], end: int, count: int) -> float:
    """What it takes to bring every place up to `end` to this count."""
    return sum(max(count - more[at], 0) * costs[at] for at in range(end + 1))


@dataclass
class Limit:
    """When a step is ended because going on would leave the budget."""

    left_s: float
    #: An equal part of what is left; each case of the first repetition gets so much in any case.
    share_s: float
    grace_s: float
    #: What the whole step would take at its present speed.
    projected_s: float = 0.0
    elapsed_s: float = 0.0
    rate_per_s: float = 0.0
    is_over: bool = False

    @property
    def is_hopeless(self) -> bool:
        """Whether the step would go on beyond the budget."""
        return self.projected_s > self.left_s + self.grace_s

    def watch(self, progress: Mapping[str, Any]) -> None:
        """Takes the engine's progress."""
        expected, done = progress["expected_operations"], progress["completed"]
        if not expected or progress["phase_name"] != "measure" or self.is_over:
            return
        self.elapsed_s = elapsed_s = progress["elapsed_ns"] / 1e9
        self.rate_per_s = done / elapsed_s if elapsed_s else 0.0
        self.projected_s = elapsed_s * expected / done if done else math.inf
        if self.is_hopeless and elapsed_s >= self.share_s:
            self.is_over = True

    def may_go_on(self) -> bool:
        """Whether there is time left."""
        return not self.is_over

    def failure(self) -> None:
        """None: a step that was ended is as good as whole, and what it would have taken is told."""

    def told(self) -> Mapping[str, Any]:
        """What the whole step would have taken, if it was ended."""
        return {"projected_s": min(self.projected_s, _FOREVER_S)} if self.is_over else {}


@dataclass(frozen=True, slots=True)
class CaseCourse:
    """What a case got."""

    workload: str
    records: int
    target: float | None
    repetitions: int
    #: How many its interval needs, at most `Repeating.most`.
    wanted: int
    seconds: float
    #: What one repetition takes, or would have taken.
    once_s: float
    #: Whether the budget ended its run before all operations were done.
    cut: bool


@dataclass(frozen=True, slots=True)
class Course:
    """How a sequence was repeated, and why not more often."""

    first_stage: int
    most: int
    #: Half the width of the interval that was aimed at, as a share; none for a fixed number.
    within: float | None
    #: None without a limit.
    budget_s: float | None
    used_s: float
    #: What everything that is lacking would take.
    lacking_s: float
    cases: tuple[CaseCourse, ...]

    def once_s(self) -> Mapping[str, float]:
        """What one repetition of each workload takes at all sizes."""
        found: dict[str, float] = {}
        for case in self.cases:
            found[case.workload] = found.get(case.workload, 0.0) + case.once_s
        return found


@dataclass
class _Place:
    """A step of the sequence at one number of records, over all its repetitions."""

    workload: str
    target: float | None
    fresh: bool
    #: How much it does, to compare with the same step at another number of records.
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


class Rounds:
    """The steps, one after the other; whoever carries one out tells how it went."""

    def __init__(
        self, study: YcsbStudy, look: _Look, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._study, self._asked, self._look, self._clock = study, study.repeating, look, clock
        self._sizes = sorted(set(study.records))
        self._sequences = [
            [
                _Place(workload, target, fresh, study.work(workload, size), self._asked.first)
                for workload, target, fresh in study.places()
            ]
            for size in self._sizes
        ]
        self._ends = _ends([place.workload for place in self._sequences[0]])
        self._repetitions = [0] * len(self._sizes)
        self._began_s = clock()
        self._steps = 0
        self._rest: list[_Place] = []
        #: 1 or 2.
        self.stage = 1

    def steps(self) -> Iterator[Step]:
        """Every step, until what is wanted is done or the budget is used up."""
        last = len(self._ends) - 1
        for one in range(len(self._sizes)):
            yield from self._repetition(one, last)
        chance = random.Random(self._study.seed)  # noqa: S311 - an order, not a secret
        yield from self._repeated(chance)
        if self._asked.within is not None:
            self.stage = 2
            self._decide()
            yield from self._repeated(chance)

    def ended(self, rate: float, projected_s: float | None = None) -> None:
        """The last step has ended, with so many operations per second.

        Where it was cut short it would have taken `projected_s`.
        """
        place = self._rest[0]
        place.rates.append(rate)
        if projected_s is not None:
            place.projected_s = projected_s

    def limit(self, step: Step) -> Limit | None:
        """When the step is ended; none for one that must be whole or has a time of its own."""
        left_s = self.left_s
        if step.workload in (*LOADS, "delete") or left_s == math.inf or self._study.timed:
            return None
        waiting = sum(not place.took_s for row in self._sequences for place in row)
        share_s = max(left_s / max(waiting, 1), _LEAST_S)
        return Limit(max(left_s, 0.0), share_s, _GRACE * self._asked.budget_s)

    @property
    def left_s(self) -> float:
        """What is left of the budget; infinite without one."""
        return self._asked.budget_s - (self._clock() - self._began_s)

    def expected_s(self) -> Mapping[str, float] | None:
        """What one repetition of each workload takes at all sizes; none while that isn't known."""
        costs = self._costs()
        if costs is None:
            return None
        found: dict[str, float] = {}
        for row, known in zip(self._sequences, costs, strict=True):
            for place, cost_s in zip(row, known, strict=True):
                found[place.workload] = found.get(place.workload, 0.0) + cost_s
        return found

    @property
    def total(self) -> int:
        """How many steps there will be as far as it is decided."""
        costs = self._costs()
        if costs is None:
            return self._asked.first * sum(map(len, self._sequences))
        more = affordable(costs, self._lacking(), self._ends, self.left_s - self._rest_s())
        return self._steps + max(len(self._rest) - 1, 0) + sum(map(sum, more))

    def left(self) -> tuple[float, bool] | None:
        """The time left when a step begins, in seconds, and whether it may also be less."""
        costs = self._costs()
        if costs is None:
            return None if self.left_s == math.inf else (max(self.left_s, 0.0), True)
        open_end = self.stage == 1 and self._asked.within is not None
        lacking = self._lacking(self._asked.most if open_end else None)
        more = affordable(costs, lacking, self._ends, self.left_s - self._rest_s())
        return self._rest_s() + price(costs, more), open_end

    def course(self) -> Course:
        """What came of it so far."""
        costs = [[place.cost_s or 0.0 for place in row] for row in self._sequences]
        lacking = affordable(costs, self._lacking(), self._ends, math.inf)
        budget_s = self._asked.budget_s
        return Course(
            first_stage=self._asked.first,
            most=self._asked.most,
            within=self._asked.within,
            budget_s=None if budget_s == math.inf else budget_s,
            used_s=self._clock() - self._began_s,
            lacking_s=price(costs, lacking),
            cases=tuple(
                CaseCourse(
                    place.workload,
                    size,
                    place.target,
                    len(place.rates),
                    place.wanted,
                    sum(place.took_s),
                    place.cost_s or 0.0,
                    place.projected_s is not None,
                )
                for size, row in zip(self._sizes, self._sequences, strict=True)
                for place in row
            ),
        )

    def _repetition(self, one: int, end: int) -> Iterator[Step]:
        repetition = self._repetitions[one]
        self._repetitions[one] += 1
        self._rest = list(self._sequences[one][: end + 1])
        while self._rest:
            place = self._rest[0]
            self._steps += 1
            began_s = self._clock()
            yield Step(
                workload=place.workload,
                records=self._sizes[one],
                repetition=repetition,
                target=place.target,
                fresh=place.fresh,
                stage=self.stage,
            )
            place.took_s.append(self._clock() - began_s)
            self._rest.pop(0)

    def _repeated(self, chance: random.Random) -> Iterator[Step]:
        """Round after round: each sequence that still lacks something once, in random order."""
        while any(self._end(one) is not None for one in range(len(self._sizes))):
            order = list(range(len(self._sizes)))
            chance.shuffle(order)
            for one in order:
                end = self._end(one)
                if end is not None:
                    yield from self._repetition(one, end)

    def _end(self, one: int) -> int | None:
        """How far the next repetition of a sequence goes; none when there is none."""
        costs = self._costs()
        if costs is None:
            return None
        more = affordable(costs, self._lacking(), self._ends, self.left_s)[one]
        return max((at for at, count in enumerate(more) if count), default=None)

    def _rest_s(self) -> float:
        return sum(place.cost_s or 0.0 for place in self._rest)

    def _decide(self) -> None:
        """The one look: from the scatter of the first stage to what each case needs."""
        first = self._asked.first
        known = [
            place
            for row in self._sequences
            for place in row
            if len(place.rates) >= first and min(place.rates[:first]) > 0
        ]
        needed = self._look([place.rates[:first] for place in known], self._asked) if known else ()
        for place, count in zip(known, needed, strict=True):
            place.wanted = count

    def _lacking(self, wanted: int | None = None) -> list[list[int]]:
        """Repetitions that each place lacks; those of the sequence that goes on count as done."""
        going = {id(place) for place in self._rest}
        return [
            [
                max((wanted or place.wanted) - len(place.took_s) - (id(place) in going), 0)
                for place in row
            ]
            for row in self._sequences
        ]

    def _costs(self) -> list[list[float]] | None:
        """What each step takes, known or foretold from the next smaller number of records."""
        costs: list[list[float]] = []
        for row in self._sequences:
            found = [
                place.cost_s if place.cost_s is not None else self._foretold(at, place)
                for at, place in enumerate(row)
            ]
            known = [cost for cost in found if cost is not None]
            if len(known) < len(found):
                return None
            costs.append(known)
        return costs

    def _foretold(self, at: int, wanted: _Place) -> float | None:
        same = [row[at] for row in self._sequences if row[at].cost_s is not None]
        if not same:
            return None
        return (same[-1].cost_s or 0.0) * wanted.work / max(same[-1].work, 1)


def _ends(workloads: Sequence[str]) -> list[int]:
    """Where a repetition may end that is wanted for each place: not between delete and a load."""
    last = len(workloads) - 1
    return [
        at if workload != "delete" or at == last else at + 1
        for at, workload in enumerate(workloads)
    ]
