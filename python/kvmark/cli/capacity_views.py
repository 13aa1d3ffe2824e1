"""A capacity and the runs of its search, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from rich.text import Text

from kvmark.experiment.capacity import Capacity, CapacitySearch, RateRun
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


def capacity_text(
    search: CapacitySearch, answer: Capacity, estimate: Bounded | None, width: int
) -> Text:
    """The table of runs, then the answer."""
    sentence = capacity_sentence(search, answer, estimate)
    return stacked(width, capacity_grid(search, answer), sentence)


def capacity_sentence(search: CapacitySearch, answer: Capacity, estimate: Bounded | None) -> str:
    """The capacity with its interval, or the reason why there is none."""
    objectives = " and ".join(objective.text for objective in search.objectives)
    of = f"of {_subject(search)} with {objectives}"
    if answer.low is None and answer.found == "generator":
        limited = sum(line.outcome == "generator" for line in answer.runs)
        return (
            f"The capacity {of} isn't known: in {limited} of {len(answer.runs)} runs the generator"
            f" was late, and not the system ({answer.reason}). Stop other programs, give the"
            " generator cores of its own (--pin), or use another machine."
        )
    if answer.low is None:
        return f"There is no capacity {of}: {answer.reason}."
    low = units.significant(answer.low)
    if answer.high is None:
        return f"The capacity {of} is at least {low} ops/s: {answer.reason}."
    high = units.significant(answer.high)
    held = (
        f"{_held(answer, answer.low)} runs held at {low} ops/s and {_held(answer, answer.high)} at"
        f" {high} ops/s"
    )
    if estimate is None or estimate.low is None or estimate.high is None:
        return (
            f"The capacity {of} lies between {low} and {high} ops/s: {held}. These are the ends of"
            " the search and no confidence interval."
        )
    return f"The capacity {of} is {between(estimate)} ops/s, with its 95 % interval: {held}."


def _held(answer: Capacity, rate: float) -> str:
    """The number of runs at a rate that held."""
    at_rate = [line for line in answer.runs if line.rate == rate]
    runs = [line for line in at_rate if line.clients == answer.clients] or at_rate
    return f"{sum(line.outcome == 'holds' for line in runs)} of {len(runs)}"


def _subject(search: CapacitySearch) -> str:
    return f"{search.spec.workload.name} on {search.spec.system.text}"


def capacity_grid(search: CapacitySearch, answer: Capacity) -> Grid:
    """The runs in order."""
    lines = answer.runs

    def figure(objective: Objective, line: RateRun) -> str:
        value = line.figures.get(objective.text)
        if value is None:
            return units.ABSENT
        if objective.measure == "errors":
            return f"{value:.3%}"
        if objective.measure == "throughput":
            return units.significant(value)
        return units.significant(value / 1e6, _DIGITS)

    table = Table(f"Capacity of {_subject(search)}", lines)
    table.key(
        "offered ops/s", lambda line: Cell(units.significant(line.rate), "strong"), number=True
    )
    table.word("step", lambda line: line.stage)
    if len({line.clients for line in lines}) > 1:
        table.number("clients", lambda line: line.clients)
    table.number("ops/s", lambda line: units.significant(line.throughput))
    for objective in search.objectives:
        heading = f"{objective.text}, ms" if _is_time(objective) else objective.text
        table.number(heading, partial(figure, objective))
    table.word("outcome", lambda line: _OUTCOMES[line.outcome])
    table.word("run", lambda line: line.run, tone="muted")
    notes = (_ALL_DUE,) if any(map(_is_time, search.objectives)) else ()
    return table.grid(notes, changes([line.stage for line in lines]))


def _is_time(objective: Objective) -> bool:
    return objective.measure not in ("errors", "throughput")
