"""The sample applications' table as text: the published rows and columns, then what they lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.text import Text

from kvmark.analysis import Verdict
from kvmark.frontends.yugabyte_apps.table import (
    AppRow,
    AppTable,
    CaseTable,
    OperationFigures,
    SideTimes,
)
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone, to_text
from kvmark.report.model.page import Section
from kvmark.report.views.runs_list import TONES

_COLUMNS: Final = (
    "mean", "min", "max", "stddev", "median", "p1", "p5", "p10", "p90", "p95", "p99",
)  # fmt: skip
_HEADINGS: Final = {"p1": "1%", "p5": "5%", "p10": "10%", "p90": "90%", "p95": "95%", "p99": "99%"}
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}
_DIGITS: Final = 4
_NOTHING: Final = Cell("-", "muted")
_OPERATIONS_NOTE: Final = (
    "A case's figures are those of all its runs: the mean of their throughputs, and times from"
    " merged histograms."
)


def app_grid(table: AppTable) -> Grid:
    """The published table: each quantity over the intervals."""
    headings = [Column(_HEADINGS.get(name, name)) for name in _COLUMNS]
    title = f"{table.app}: {table.writers} writers, {table.readers} readers"
    return Grid(
        title=f"{title} · {_of(table)}",
        columns=(Column("over intervals", number=False, key=True), *headings),
        rows=tuple(_row(row) for row in table.rows),
        section_starts=_sections(table.rows),
        notes=(*_together(table.runs), *_commands(table), *table.unknown, *table.notes),
    )


def times_grid(table: AppTable) -> Grid:
    """Quantiles of single operations, from the histograms."""
    times_ns = [times.mean_ns for side in table.times for times in (side.response, side.service)]
    unit = units.time_unit(times_ns)
    columns = [
        Column(heading, f"{kind} time, {unit.name}")
        for kind in ("response", "service")
        for heading in (*_QUANTILES.values(), "max")
    ]
    return Grid(
        title="Single operations",
        columns=(Column("", number=False, key=True), Column("ok"), *columns),
        rows=tuple(_times_row(side, unit) for side in table.times),
        notes=tuple(_findings(table)),
    )


def case_grid(case: CaseTable) -> Grid:
    """One case of a study: each row as it was measured, and as it was published below it."""
    grid = app_grid(case.table)
    beside = Column("", number=False)
    rows: list[tuple[Cell, ...]] = []
    for row, (name, *cells) in zip(case.table.rows, grid.rows, strict=True):
        rows.append((name, Cell("measured"), *cells))
        # What the original took is the service time.
        theirs = f"{row.name.replace('service time', 'latency')}, {row.unit}"
        numbers = case.published.get(theirs)
        if numbers is not None:
            published = (Cell(_number(numbers[column]), "muted") for column in _COLUMNS)
            rows.append((Cell(""), Cell("published", "muted"), *published))
    first, *others = grid.columns
    return replace(
        grid,
        title=f"{case.case} · {_of(case.table)}",
        columns=(first, beside, *others),
        rows=tuple(rows),
        section_starts=frozenset(),
    )


def app_part(table: AppTable) -> Section:
    """The table as a part of a page."""
    return Section("application", "Application", grids=(app_grid(table), times_grid(table)))


def app_text(table: AppTable, verdict: Verdict, width: int) -> Text:
    """The table for a terminal, with the verdict."""
    lines = [to_text(app_grid(table), width), Text(), to_text(times_grid(table), width), Text()]
    lines.append(Text(f"Verdict: {verdict.judgement.name}", TONES[verdict.judgement]))
    return Text("\n").join(lines)


def operations_by_workload(rows: Sequence[OperationFigures]) -> Grid:
    """The published table of YCSB: workload, throughput, operation and its times."""
    return Grid(
        title="YCSB by operation",
        columns=(
            Column("workload", number=False, key=True),
            Column("operation", number=False, key=True),
            *(
                Column(heading, group)
                for group in ("measured", "published")
                for heading in ("ops/sec", "mean, µs", "p99, µs")
            ),
        ),
        rows=tuple(map(_operation_row, rows)),
        notes=(
            "Throughput is that of all operations of a workload; measured is response time.",
            *([_OPERATIONS_NOTE] if any(row.runs > 1 for row in rows) else []),
        ),
    )


def _of(table: AppTable) -> str:
    """The system, and of how many runs the figures are where that isn't one."""
    runs = f" · {table.runs} runs" if table.runs > 1 else ""
    return f"{table.system} {table.version}".rstrip() + runs


def _together(runs: int) -> list[str]:
    return [f"Over the intervals of all {runs} runs of the case."] if runs > 1 else []


def _operation_row(row: OperationFigures) -> tuple[Cell, ...]:
    measured = (row.throughput, row.response_us_mean, row.response_us_p99)
    published = [row.published.get(name) for name in ("throughput", "mean_us", "p99_us")]

    def cells(figures: Sequence[float | None], tone: Tone) -> list[Cell]:
        return [Cell(units.significant(one, _DIGITS), tone) for one in figures]

    return (
        Cell(row.workload),
        Cell(row.operation),
        *cells(measured, "plain"),
        *cells(published, "muted"),
    )


def _row(row: AppRow) -> tuple[Cell, ...]:
    name = Cell(f"{row.name}, {row.unit}")
    if row.spread is None:
        return (name, *(_NOTHING for _ in _COLUMNS))
    return (name, *(Cell(_number(getattr(row.spread, column))) for column in _COLUMNS))


def _number(value: float) -> str:
    """As the published table writes them: two decimals, none of a whole number of 0."""
    return "0" if value == 0 else f"{value:.2f}"


def _sections(rows: Sequence[AppRow]) -> frozenset[int]:
    firsts = [row.name.split()[0] for row in rows]
    return frozenset(place for place in range(1, len(rows)) if firsts[place] != firsts[place - 1])


def _commands(table: AppTable) -> list[str]:
    """How operations are counted where one of them is several."""
    counted = [f"{side.lower()} {n:,}" for side, n in table.commands.items() if n > 1]
    if not counted:
        return []
    sentence = (
        "An operation of this table is one row or command, of which one request has: "
        f"{', '.join(counted)}. Times are those of whole requests."
    )
    return [sentence]


def _findings(table: AppTable) -> list[str]:
    memory = [f"{node} {units.size(size)}" for node, size in table.memory_bytes.items()]
    found = [f"Most memory: {', '.join(memory)}."] if memory else []
    found.append(f"Values that weren't what they must be: {table.mismatches:,}.")
    if table.misses:
        found.append(f"Reads that found nothing: {table.misses:,}.")
    return found


def _times_row(side: SideTimes, unit: units.TimeUnit) -> tuple[Cell, ...]:
    cells = [Cell(side.side), Cell(units.whole(side.response.count))]
    for times in (side.response, side.service):
        quantiles = [times.shown_ns(name) for name in _QUANTILES]
        cells += [
            _NOTHING if time_ns is None else Cell(units.duration(time_ns, unit))
            for time_ns in (*quantiles, times.max_ns)
        ]
    return tuple(cells)
