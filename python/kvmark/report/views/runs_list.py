"""The list of runs, which imports no library that reads a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from kvmark.records import Judgement, RunLine
from kvmark.report.model import units
from kvmark.report.model.tables import Cell, Grid, Table, Tone, to_text

TONES: dict[Judgement, Tone] = {
    Judgement.VALID: "valid",
    Judgement.SUSPECT: "suspect",
    Judgement.INVALID: "invalid",
}
#: The length of a date and time without seconds.
_MINUTE: Final = 16


def runs_text(runs: Sequence[RunLine], width: int) -> Text:
    """The list of runs for a terminal."""
    return to_text(runs_grid(runs), width)


def runs_grid(lines: Sequence[RunLine]) -> Grid:
    """The list of runs."""
    table = Table("", lines)
    table.key("run", lambda line: Cell(line.entry.id, "strong"))
    table.word("created", lambda line: minute_cell(line.entry.created))
    table.word("workload", lambda line: line.entry.name)
    table.word("system", lambda line: f"{line.entry.system} {line.entry.version}".strip())
    if any(line.throughput is not None for line in lines):
        table.number("ops/s", _rates)
        table.number("response p99", lambda line: units.with_unit(line.response_ns_p99))
    if any(line.service_ns_p99 and not line.response_ns_p99 for line in lines):
        table.number("service p99", lambda line: units.with_unit(line.service_ns_p99))
    table.word("verdict", _state_cell)
    table.word("tags", lambda line: ", ".join(line.entry.tags), tone="muted")
    return table.grid()


def _rates(line: RunLine) -> str:
    """Operations a second; of several imported cases the slowest and the fastest."""
    if line.least_throughput == line.throughput or line.least_throughput is None:
        return units.significant(line.throughput)
    return f"{units.significant(line.least_throughput)} – {units.significant(line.throughput)}"


def minute_cell(created: str) -> Cell:
    """A date and time without seconds."""
    return Cell(created[:_MINUTE].replace("T", " "), "muted")


def verdict_cell(judgement: Judgement) -> Cell:
    """A judgement in its colour."""
    return Cell(judgement.value, TONES[judgement])


def _state_cell(line: RunLine) -> Cell:
    if line.judgement:
        return verdict_cell(line.judgement)
    return Cell(units.ABSENT if line.entry.state == "closed" else line.entry.state, "muted")
