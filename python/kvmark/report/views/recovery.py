"""The service around a trigger, and whether it recovered, for a terminal and a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from kvmark.analysis.capacity import Capacity
from kvmark.analysis.recovery import Recovery, RecoveryOutcome, RecoveryPart
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Grid, Table, changes, stacked

_OUTCOMES: Final[Mapping[RecoveryOutcome, Cell]] = {
    "recovered": Cell("recovered", "valid"),
    "not recovered": Cell("not recovered", "invalid"),
    "not carried": Cell("base rate not carried", "suspect"),
    "generator": Cell("generator's limit", "suspect"),
}
_PARTS: Final = {
    "before": "before", "trigger": "trigger", "after": "after it", "end": "last quarter of that",
}  # fmt: skip
_NOTES: Final = (
    "Goodput: operations that succeeded. Wasted: share of attempts without success.",
    "Recovery time: from the end of the trigger until the goodput is at its level before.",
)


@dataclass(frozen=True, slots=True)
class RecoveryAnswer:
    """The runs around a trigger."""

    workload: str
    system: str
    trigger: str
    limit_ns: int
    recoveries: tuple[Recovery, ...]
    #: None without a search.
    search: Capacity | None


def recovery_text(answer: RecoveryAnswer, width: int) -> Text:
    """The tables, then the answer."""
    return stacked(width, *recovery_grids(answer), recovery_sentence(answer))


def recovery_sentence(answer: RecoveryAnswer) -> str:
    """Whether the service recovered, or the highest base rate from which it does."""
    of = f"{answer.workload} on {answer.system}"
    if answer.search is None:
        return _sentence_of_run(answer, answer.recoveries[-1], of)
    low, high = answer.search.low, answer.search.high
    limit = units.with_unit(answer.limit_ns)
    if low is None:
        return f"From no base rate {of} recovers from '{answer.trigger}': {answer.search.reason}."
    rate = f"{of} recovers from '{answer.trigger}' up to {units.significant(low)} ops/s"
    if high is None:
        return f"{rate}, at least: {answer.search.reason}."
    return f"{rate}; from {units.significant(high)} ops/s it doesn't within {limit}."


def _sentence_of_run(answer: RecoveryAnswer, one: Recovery, of: str) -> str:
    at = f"{of} at {units.significant(one.rate)} ops/s"
    wasted = f"{units.whole(one.wasted_attempts)} attempts were without success"
    if one.outcome == "recovered" and not (one.recovery_ns or one.wasted_attempts):
        return f"{at} wasn't disturbed by '{answer.trigger}': choose a stronger trigger."
    if one.outcome == "recovered":
        after = units.with_unit(one.recovery_ns) if one.recovery_ns else "at once"
        back = f"after {after}" if one.recovery_ns else after
        return f"{at} recovered from '{answer.trigger}' {back}; {wasted}."
    if one.outcome == "not recovered":
        before, end = one.parts[0], one.parts[-1]
        limit = units.with_unit(answer.limit_ns)
        levels = f"{units.significant(end.goodput)} instead of {units.significant(before.goodput)}"
        return (
            f"{at} did not recover from '{answer.trigger}' within {limit}: goodput was {levels}"
            f" ops/s at the end; {wasted}."
        )
    why = "the generator was the limit" if one.outcome == "generator" else "it was not carried"
    return f"{at}: no answer, because {why}: {one.reason}."


def recovery_grids(answer: RecoveryAnswer) -> Iterator[Grid]:
    """The parts of a single run; of a search one row per run."""
    if answer.search is None:
        yield _parts_grid(answer, answer.recoveries[-1])
    else:
        yield _runs_grid(answer, answer.recoveries)


def _parts_grid(answer: RecoveryAnswer, one: Recovery) -> Grid:
    table = Table(f"{answer.workload} on {answer.system}, '{answer.trigger}'", one.parts)
    table.key("part", lambda part: _PARTS[part.name])
    table.number("from", lambda part: units.with_unit(part.start_ns))
    table.number("length", lambda part: units.with_unit(part.end_ns - part.start_ns))
    table.number("goodput/s", lambda part: units.significant(part.goodput), tone="strong")
    table.number("failed/s", lambda part: units.significant(part.failed))
    table.number("attempts/s", lambda part: units.significant(part.attempts))
    table.number("wasted", _wasted)
    return table.grid(_NOTES)


def _runs_grid(answer: RecoveryAnswer, recoveries: Sequence[Recovery]) -> Grid:
    search = answer.search
    stages = [] if search is None else [one.stage for one in search.runs]
    rows = list(zip(recoveries, stages, strict=True))
    table = Table(f"{answer.workload} on {answer.system}, '{answer.trigger}'", rows)
    table.key("base ops/s", lambda row: Cell(units.significant(row[0].rate), "strong"), number=True)
    table.word("step", lambda row: row[1])
    table.number("recovery time", lambda row: units.with_unit(row[0].recovery_ns))
    table.number("goodput/s, end", lambda row: units.significant(row[0].parts[-1].goodput))
    table.number("wasted, end", lambda row: _wasted(row[0].parts[-1]))
    table.word("outcome", lambda row: _OUTCOMES[row[0].outcome])
    table.word("run", lambda row: row[0].run, tone="muted")
    return table.grid(_NOTES, changes(stages))


def _wasted(part: RecoveryPart) -> str:
    return units.ABSENT if part.wasted is None else units.percent(part.wasted)
