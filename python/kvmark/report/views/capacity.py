"""A capacity and the runs of its search, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.text import Text

from kvmark.analysis.capacity import Capacity, RateRun
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Grid, Table, changes, stacked
from kvmark.report.model.units import Bounded
from kvmark.report.views.scaling import between
from kvmark.spec.objective import Objective

# With three digits, figures near a bound would be rounded to it.
_DIGITS: Final = 4
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
    """The result of a search, and what was searched."""

    workload: str
    system: str
    objectives: tuple[Objective, ...]
    #: With its interval, or the highest rate that held without one; none without a capacity.
    estimate: Bounded | None
    result: Capacity


def capacity_text(answer: CapacityAnswer, width: int) -> Text:
    """The table of runs, then the answer."""
    return stacked(width, capacity_grid(answer), capacity_sentence(answer))


def capacity_sentence(answer: CapacityAnswer) -> str:
    """The capacity with its interval, or the reason why there is none."""
    result = answer.result
    objectives = " and ".join(objective.text for objective in answer.objectives)
    of = f"of {answer.workload} on {answer.system} with {objectives}"
    if result.low is None and result.found == "generator":
        limited = sum(line.outcome == "generator" for line in result.runs)
        return (
            f"The capacity {of} isn't known: in {limited} of {len(result.runs)} runs the generator"
            f" was late, and not the system ({result.reason}). Stop other programs, give the"
            " generator cores of its own (--pin), or use another machine."
        )
    if result.low is None:
        return f"There is no capacity {of}: {result.reason}."
    low = units.significant(result.low)
    if result.high is None:
        return f"The capacity {of} is at least {low} ops/s: {result.reason}."
    high = units.significant(result.high)
    held = (
        f"{_held(result, result.low)} runs held at {low} ops/s and {_held(result, result.high)} at"
        f" {high} ops/s"
    )
    estimate = answer.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return (
            f"The capacity {of} lies between {low} and {high} ops/s: {held}. These are the ends of"
            " the search and no confidence interval."
        )
    return f"The capacity {of} is {between(estimate)} ops/s, with its 95 % interval: {held}."


def _held(result: Capacity, rate: float) -> str:
    """The number of runs at a rate that held."""
    at_rate = [line for line in result.runs if line.rate == rate]
    runs = [line for line in at_rate if line.clients == result.clients] or at_rate
    return f"{sum(line.outcome == 'holds' for line in runs)} of {len(runs)}"


def capacity_grid(answer: CapacityAnswer) -> Grid:
    """The runs in order."""
    lines = answer.result.runs

    def figure(objective: Objective, line: RateRun) -> str:
        value = line.figures.get(objective.text)
        if value is None:
            return units.ABSENT
        if objective.measure == "errors":
            return f"{value:.3%}"
        if objective.measure == "throughput":
            return units.significant(value)
        return units.significant(value / 1e6, _DIGITS)

    table = Table(f"Capacity of {answer.workload} on {answer.system}", lines)
    table.key(
        "offered ops/s", lambda line: Cell(units.significant(line.rate), "strong"), number=True
    )
    table.word("step", lambda line: line.stage)
    if len({line.clients for line in lines}) > 1:
        table.number("clients", lambda line: line.clients)
    table.number("ops/s", lambda line: units.significant(line.throughput))
    for objective in answer.objectives:
        heading = f"{objective.text}, ms" if _is_time(objective) else objective.text
        table.number(heading, partial(figure, objective))
    table.word("outcome", lambda line: _OUTCOMES[line.outcome])
    table.word("run", lambda line: line.run, tone="muted")
    notes = (_ALL_DUE,) if any(map(_is_time, answer.objectives)) else ()
    return table.grid(notes, changes([line.stage for line in lines]))


def _is_time(objective: Objective) -> bool:
    return objective.measure not in ("errors", "throughput")
