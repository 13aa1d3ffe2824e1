"""A capacity and the runs that led to it, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from rich.text import Text

from kvmark.foreign_text import printable
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone, to_text
from kvmark.report.format.terminal import sentence_lines
from kvmark.report.views.scaling import between

# Near a bound three digits would round onto it.
_DIGITS: Final = 4
_OUTCOMES: Final[Mapping[str, tuple[str, Tone]]] = {
    "holds": ("holds", "valid"),
    "missed": ("missed", "plain"),
    "generator": ("generator's limit", "suspect"),
    "too few": ("too few operations", "muted"),
}


_ALL_DUE: Final = (
    "Times are those of all operations that were due: one that failed or was never issued counts as"
    f" slower than any bound. {units.ABSENT} stands where the figure is beyond any bound, or where"
    " there are too few operations for it."
)


class Bound(Protocol):
    """What a figure must be."""

    @property
    def text(self) -> str:
        """As it was written."""

    @property
    def measure(self) -> str:
        """What is bounded: a time, `errors` or `throughput`."""


@dataclass(frozen=True, slots=True)
class CapacityLine:
    """One run."""

    rate: float
    stage: str
    run: str
    outcome: str
    reasons: tuple[str, ...]
    #: Each objective's figure by its text: nanoseconds, a share, or ops/s.
    figures: Mapping[str, float | None]
    throughput: float
    #: The limit of operations in flight.
    clients: int


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """What was asked and found. Rates are operations per second."""

    workload: str
    system: str
    objectives: tuple[Bound, ...]
    found: Literal["found", "nowhere", "generator", "clients", "open"]
    low: float | None
    high: float | None
    reason: str
    #: With its interval, or the highest rate that held without one; none where there is none.
    estimate: units.Bounded | None
    #: The limit of operations in flight with which it was found.
    clients: int
    #: That all of its runs have.
    tag: str
    lines: tuple[CapacityLine, ...]


def capacity_text(answer: CapacityAnswer, width: int) -> Text:
    """The table of runs, then the answer."""
    lines = [to_text(capacity_grid(answer), width), Text()]
    lines += sentence_lines(printable(capacity_sentence(answer)), width)
    return Text("\n").join(lines)


def capacity_sentence(answer: CapacityAnswer) -> str:
    """The answer in plain words."""
    objectives = " and ".join(bound.text for bound in answer.objectives)
    of = f"of {answer.workload} on {answer.system} with {objectives}"
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
    estimate = answer.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return (
            f"The capacity {of} lies between {low} and {high} ops/s: {held}. These are the ends of"
            " the search and no confidence interval."
        )
    return f"The capacity {of} is {between(estimate)} ops/s, with its 95 % interval: {held}."


def capacity_grid(answer: CapacityAnswer) -> Grid:
    """One row per run, in the order in which they were made."""
    changes = [
        number
        for number, line in enumerate(answer.lines)
        if number and line.stage != answer.lines[number - 1].stage
    ]
    several = len({line.clients for line in answer.lines}) > 1
    return Grid(
        title=f"Capacity of {answer.workload} on {answer.system}",
        columns=(
            Column("offered ops/s", key=True),
            Column("step", number=False),
            *([Column("clients")] if several else []),
            Column("ops/s"),
            *(Column(_heading(bound)) for bound in answer.objectives),
            Column("outcome", number=False),
            Column("run", number=False),
        ),
        rows=tuple(_row(line, answer.objectives, several=several) for line in answer.lines),
        section_starts=frozenset(changes),
        notes=(_ALL_DUE,) if any(_is_time(bound) for bound in answer.objectives) else (),
    )


def _is_time(bound: Bound) -> bool:
    return bound.measure not in ("errors", "throughput")


def _heading(bound: Bound) -> str:
    return f"{bound.text}, ms" if _is_time(bound) else bound.text


def _row(line: CapacityLine, objectives: tuple[Bound, ...], *, several: bool) -> tuple[Cell, ...]:
    said, tone = _OUTCOMES[line.outcome]
    return (
        Cell(units.significant(line.rate), "strong"),
        Cell(line.stage),
        *([Cell(units.whole(line.clients))] if several else []),
        Cell(units.significant(line.throughput)),
        *(Cell(_figure(line.figures.get(bound.text), bound)) for bound in objectives),
        Cell(said, tone),
        Cell(line.run, "muted"),
    )


def _figure(value: float | None, bound: Bound) -> str:
    if value is None:
        return units.ABSENT
    match bound.measure:
        case "errors":
            return f"{value:.3%}"
        case "throughput":
            return units.significant(value)
        case _:
            return units.significant(value / 1e6, _DIGITS)


def _held(answer: CapacityAnswer, rate: float) -> str:
    """How many of the runs at a rate held."""
    at_rate = [line for line in answer.lines if line.rate == rate]
    runs = [line for line in at_rate if line.clients == answer.clients] or at_rate
    held = sum(line.outcome == "holds" for line in runs)
    return f"{held} of {len(runs)}"
