"""A capacity and the runs of its search, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.text import Text

from kvmark.analysis.capacity import Capacity, RateRun
from kvmark.analysis.compare.bounds import figure_text
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Grid, Table, changes, stacked
from kvmark.report.model.units import Bounded
from kvmark.report.views.scaling import between
from kvmark.spec.metric import Objective

_OUTCOMES: Final[Mapping[str, Cell]] = {
    "holds": Cell("holds", "valid"),
    "missed": Cell("missed"),
    "generator": Cell("generator's limit", "suspect"),
    "too few": Cell("too few operations", "muted"),
}
_ALL_DUE: Final = (
    "Times are those of all operations that were due: one that failed or was never issued counts as"
    f" slower than any bound. {units.ABSENT} stands where the figure is beyond any bound, or where"
    " there are too few operations for it."
)


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """The result of a search."""

    workload: str
    system: str
    objectives: tuple[Objective, ...]
    search: Capacity
    #: With its interval, or the highest rate that held without one; none without a capacity.
    estimate: Bounded | None


def capacity_text(answer: CapacityAnswer, width: int) -> Text:
    """The table of runs, then the answer."""
    return stacked(width, capacity_grid(answer), capacity_sentence(answer))


def capacity_sentence(answer: CapacityAnswer) -> str:
    """The capacity with its interval, or the reason why there is none."""
    found = answer.search
    objectives = " and ".join(objective.text for objective in answer.objectives)
    of = f"of {answer.workload} on {answer.system} with {objectives}"
    if found.low is None and found.found == "generator":
        limited = sum(one.outcome == "generator" for one in found.runs)
        return (
            f"The capacity {of} isn't known: in {limited} of {len(found.runs)} runs the generator"
            f" was late, and not the system. Stop other programs, give the"
            " generator cores of its own (--pin), or use another machine."
        )
    if found.low is None:
        return f"There is no capacity {of}: {found.reason}."
    low = units.significant(found.low)
    if found.high is None:
        return f"The capacity {of} is at least {low} ops/s: {found.reason}."
    high = units.significant(found.high)
    held = (
        f"{_held(found, found.low)} runs held at {low} ops/s and {_held(found, found.high)} at"
        f" {high} ops/s"
    )
    estimate = answer.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return (
            f"The capacity {of} lies between {low} and {high} ops/s: {held}. These are the ends of"
            " the search and no confidence interval."
        )
    return f"The capacity {of} is {between(estimate)} ops/s, with its 95 % interval: {held}."


def _held(search: Capacity, rate: float) -> str:
    """The number of runs at a rate that held."""
    at_rate = [one for one in search.runs if one.rate == rate]
    runs = [one for one in at_rate if one.clients == search.clients] or at_rate
    return f"{sum(one.holds for one in runs)} of {len(runs)}"


def capacity_grid(answer: CapacityAnswer) -> Grid:
    """The runs in order."""
    runs = answer.search.runs

    def figure(objective: Objective, one: RateRun) -> str:
        value = one.figures.get(objective.text)
        return units.ABSENT if value is None else figure_text(objective, value)

    table = Table(f"Capacity of {answer.workload} on {answer.system}", runs)
    table.key("offered ops/s", lambda one: Cell(units.significant(one.rate), "strong"), number=True)
    table.word("step", lambda one: one.stage)
    if len({one.clients for one in runs}) > 1:
        table.number("clients", lambda one: one.clients)
    table.number("ops/s", lambda one: units.significant(one.throughput))
    for objective in answer.objectives:
        table.number(objective.text, partial(figure, objective))
    table.word("outcome", lambda one: _OUTCOMES[one.outcome])
    table.word("run", lambda one: one.run, tone="muted")
    notes = (_ALL_DUE,) if any(one.metric.is_time for one in answer.objectives) else ()
    return table.grid(notes, changes([one.stage for one in runs]))
