"""What costs more than what: rankings with intervals, and which pairs are really ordered.

A cost is nanoseconds per operation: the mean service time of a kind of operation, or the window of
a workload shared among its operations. Costs are ranked within a setting, so that what is ranked
differs in one thing only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

from kvmark.analysis.compare.metrics import level
from kvmark.analysis.compare.resolution import clock_step_ns
from kvmark.analysis.summary.run import mean_service_ns
from kvmark.records import Case, Run, TotalRecord, by_case
from kvmark.records.case import Aspect
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Effect, Estimate, Level, combined, difference, holm, level_of

__all__ = ["ERROR_LEVEL", "By", "Pair", "Ranked", "Ranking", "costs", "ranking", "rankings"]

By = Literal["operation", "workload", "store"]

#: Chance that a ranking calls a pair ordered that isn't, over all of its pairs together.
ERROR_LEVEL = 0.05

#: In what the things that are ranked may differ; in nothing else.
_RANKED: Final[Mapping[By, tuple[Aspect, ...]]] = {
    "operation": ("workload",), "workload": ("workload",), "store": ("system",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ranked:
    """Something with its cost per operation in nanoseconds."""

    name: str
    cost: Estimate
    #: How many runs it was taken from.
    runs: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of them: how much dearer the second is, and whether that is beyond chance."""

    cheaper: str
    dearer: str
    effect: Effect
    #: Adjusted for all pairs of the ranking by Holm's method; none where no error is known.
    p_value: float | None

    @property
    def ordered(self) -> bool:
        """Whether the order is beyond chance."""
        return self.p_value is not None and self.p_value < ERROR_LEVEL


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was ranked in one setting, the cheapest first."""

    setting: str
    ranked: tuple[Ranked, ...]
    pairs: tuple[Pair, ...]

    def pair(self, one: str, other: str) -> Pair | None:
        """The pair of two names, whichever is the cheaper."""
        names = {one, other}
        return next((pair for pair in self.pairs if {pair.cheaper, pair.dearer} == names), None)


@dataclass(frozen=True, slots=True)
class Cost:
    """A level of cost and the runs behind it."""

    level: Level
    runs: int


def rankings(runs: Iterable[Run], by: By) -> tuple[Ranking, ...]:
    """The ranking of each setting in which there are at least two things to rank.

    Raises:
        RecordsError: a run's files can't be read.
    """
    settings = costs(runs, by)
    return tuple(ranking(name, found) for name, found in settings.items() if len(found) > 1)


def costs(runs: Iterable[Run], by: By) -> dict[str, dict[str, Cost]]:
    """Costs by setting and by what is ranked in it."""
    settings = by_case(runs, without=_RANKED[by])
    return {
        setting.title: _setting_costs(same, by)
        for setting, same in sorted(settings.items(), key=lambda item: _place(item[0]))
    }


def ranking(setting: str, found: Mapping[str, Cost]) -> Ranking:
    """Ranks costs and tests every pair."""
    names = sorted(found, key=lambda name: found[name].level.log)
    ranked = tuple(
        Ranked(name, found[name].level.estimate("ns"), found[name].runs) for name in names
    )
    effects = [
        (one, other, difference(found[one].level, found[other].level))
        for one, other in combinations(names, 2)
    ]
    # A pair of which nothing is known takes no share of the error level.
    known = [effect.p_value for _, _, effect in effects if effect.p_value is not None]
    adjusted = iter(holm(known))
    pairs = tuple(
        Pair(one, other, effect, None if effect.p_value is None else next(adjusted))
        for one, other, effect in effects
    )
    return Ranking(setting, ranked, pairs)


def _setting_costs(runs: Sequence[Run], by: By) -> dict[str, Cost]:
    found: dict[str, list[Cost]] = {}
    for case, same in by_case(runs).items():
        for name, cost in _case_costs(case, same, by).items():
            found.setdefault(name, []).append(cost)
    return {name: _together(parts) for name, parts in found.items()}


def _case_costs(case: Case, runs: Sequence[Run], by: By) -> dict[str, Cost]:
    if by == "operation":
        return _operation_costs(runs)
    found = level(runs, THROUGHPUT)
    if found is None:
        return {}
    name = case.workload if by == "workload" else case.store
    apart = f", {case.apart}" if case.apart else ""
    # The time of one operation is the inverse of their rate.
    inverse = replace(found, log=math.log(1e9) - found.log)
    return {f"{name}{apart}": Cost(inverse, len(runs))}


def _operation_costs(runs: Sequence[Run]) -> dict[str, Cost]:
    means: dict[str, list[float]] = {}
    for run in runs:
        for name, totals in _operations(run).items():
            mean_ns = mean_service_ns(totals)
            if mean_ns:
                means.setdefault(name, []).append(mean_ns)
    step_ns = clock_step_ns(runs)
    return {
        name: Cost(level_of(values, step_ns / min(values)), len(values))
        for name, values in means.items()
    }


def _operations(run: Run) -> dict[str, list[TotalRecord]]:
    """The successful totals of each kind; parts of read-modify-writes are in their whole."""
    found: dict[str, list[TotalRecord]] = {}
    for phase in run.counted:
        for total in run.totals(phase.index):
            if total.outcome == "ok" and not total.part and total.count:
                found.setdefault(total.operation, []).append(total)
    return found


def _together(parts: Sequence[Cost]) -> Cost:
    """One cost from those of several workloads, each as important as the others."""
    repeated = [part for part in parts if part.level.spread is not None]
    used = repeated or list(parts)
    return Cost(combined([part.level for part in used]), sum(part.runs for part in used))


def _place(case: Case) -> tuple[str, int, str, float]:
    return case.store, case.records, case.workload, case.target_rate or math.inf
