"""The list of runs. It is drawn without the libraries that reading a run brings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvmark.records import Judgement, RunLine
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone, to_text

TONES: dict[Judgement, Tone] = {
    Judgement.VALID: "valid",
    Judgement.SUSPECT: "suspect",
    Judgement.INVALID: "invalid",
}
# Characters of a date and time without its seconds.
_MINUTE = 16


def runs_text(runs: Sequence[RunLine], width: int) -> Text:
    """The list of runs for a terminal."""
    return to_text(runs_grid(runs), width) if runs else Text("No runs yet.")


def runs_grid(lines: Sequence[RunLine]) -> Grid:
    """The list of runs."""
    unit = units.time_unit(line.response_ns_p99 for line in lines)
    measured = any(line.throughput is not None for line in lines)
    figures = (Column("ops/s"), Column(f"response p99 {unit.name}")) if measured else ()
    columns = (
        Column("run", number=False, key=True),
        Column("created", number=False),
        Column("workload", number=False),
        Column("system", number=False),
        *figures,
        Column("verdict", number=False),
        Column("tags", number=False),
    )
    return Grid("", columns, tuple(_run_row(line, unit, measured=measured) for line in lines))


def verdict_cell(judgement: Judgement) -> Cell:
    """The word itself, in its colour."""
    return Cell(judgement.value, TONES[judgement])


def _run_row(line: RunLine, unit: units.TimeUnit, *, measured: bool) -> tuple[Cell, ...]:
    entry = line.entry
    figures = (
        Cell(units.significant(line.throughput)),
        Cell(units.duration(line.response_ns_p99, unit)),
    )
    state = Cell(units.ABSENT if entry.state == "closed" else entry.state, "muted")
    return (
        Cell(entry.id, "strong"),
        Cell(entry.created[:_MINUTE].replace("T", " "), "muted"),
        Cell(entry.name),
        Cell(f"{entry.system} {entry.version}".strip()),
        *(figures if measured else ()),
        verdict_cell(line.judgement) if line.judgement else state,
        Cell(", ".join(entry.tags), "muted"),
    )
