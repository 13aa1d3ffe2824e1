"""An imported run as an answer: its figures as its tool wrote them, digit for digit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial

import polars as pl

from kvmark.analysis import Verdict, imported_curves, imported_steps, judge, summarize
from kvmark.records import FigureRecord, ImportedRecord, Run, TimeName
from kvmark.records.model import TIMES, VALUE
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid
from kvmark.report.model.answers import Curve, Fact, Provenance, RunAnswer

_Row = tuple[int, str | None]
_MOST_SAID = 400
_ERRORS = "The tool's standard errors are in the run's JSON export."


def imported_answer(run: Run, imported: ImportedRecord, verdict: Verdict | None) -> RunAnswer:
    """An imported run; its verdict is computed unless it is given.

    Raises:
        RecordsError: the run's files can't be read.
    """
    summary, manifest = summarize(run), run.manifest
    system = f"{summary.system} {summary.version}".strip()
    on = f" on {system}" if system else ""
    whole = (pl.col("operation") == "TOTAL") & (pl.col("end_ns") > pl.col("start_ns"))
    facts = [Fact("Imported", manifest.created)]
    facts += [Fact(name, version) for name, version in manifest.versions.items()]
    return RunAnswer(
        title=f"{summary.name}{on}, imported{_from(imported.origin.tool)}",
        asked=tuple(_asked(imported, system)),
        summary=summary,
        verdict=verdict or judge(run),
        phases=(),
        intervals=run.intervals.filter(whole),
        curves=cache(lambda: tuple(_curves(imported))),
        provenance=Provenance(
            facts=(*facts, *_origin(imported)),
            command=manifest.command,
            documents={"Said by the file": imported.origin.said} if imported.origin.said else {},
        ),
        time_steps=partial(imported_steps, imported),
        imported=imported,
    )


def _curves(imported: ImportedRecord) -> Iterator[Curve]:
    for curve in imported_curves(imported):
        yield Curve(curve.panel, curve.time, curve.points)


def imported_sentence(imported: ImportedRecord) -> str:
    """What was imported, and that it isn't judged."""
    origin, cases = imported.origin, len(imported.cases)
    count = f"{units.whole(len(imported.figures))} figures"
    of = f" of {units.whole(cases)} cases" if cases > 1 else ""
    return f"{count}{of} imported{_from(_tool(imported))}, file {origin.file}: not judged."


def imported_facts(imported: ImportedRecord) -> tuple[Fact, ...]:
    """The plain figures of a file with one case; other files have them in a table."""
    if len(imported.cases) != 1:
        return ()
    return tuple(
        Fact(_heading(figure.quantity), _with_unit(figure))
        for figure in _of_cases(imported)
        if figure.quantity in _plain(_of_cases(imported))
    )


def imported_grids(imported: ImportedRecord) -> tuple[Grid, ...]:
    """The figures of the cases, then those of their operations."""
    of_cases = _of_cases(imported)
    if len(imported.cases) == 1:
        of_cases = [figure for figure in of_cases if figure.quantity not in _plain(of_cases)]
    of_operations = [figure for figure in imported.figures if figure.operation is not None]
    grids = []
    if of_cases:
        several = len(imported.cases) > 1
        grids.append(_grid(imported, "Cases" if several else "All operations", of_cases))
    if of_operations:
        grids.append(_grid(imported, "Operations", of_operations))
    return tuple(grids)


def time_of(intervals: pl.DataFrame) -> TimeName | None:
    """The first of the times that the intervals tell; none when they tell none."""
    if intervals.is_empty():
        return None
    columns = {time: [f"{time}_ns_{name}" for name in ("p50", "p99", "max")] for time in TIMES}
    known = (
        time for time, names in columns.items()
        if any(intervals[name].is_not_null().any() for name in names)
    )  # fmt: skip
    return next(known, None)


def _asked(imported: ImportedRecord, system: str) -> Iterator[Fact]:
    yield Fact("System", system or "not told")
    yield Fact("Measured by", _tool(imported) or "not told")
    if len(imported.cases) == 1 and imported.cases[0].labels:
        yield Fact("Case", imported.cases[0].name)
    for name, text in imported.origin.said.items():
        short = text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"
        yield Fact(name.replace("_", " ").capitalize(), short)
    yield from (Fact("Note", note) for note in imported.notes)


def _origin(imported: ImportedRecord) -> Iterator[Fact]:
    origin = imported.origin
    yield Fact("File", f"{origin.file}, {units.whole(origin.size_bytes)} bytes")
    yield Fact("SHA-256", origin.sha256)
    yield Fact("Recognised as", origin.format)


def _tool(imported: ImportedRecord) -> str:
    return f"{imported.origin.tool or ''} {imported.origin.version or ''}".strip()


def _from(tool: str | None) -> str:
    return f" from {tool}" if tool else ""


def _of_cases(imported: ImportedRecord) -> list[FigureRecord]:
    return [figure for figure in imported.figures if figure.operation is None]


def _plain(figures: Iterable[FigureRecord]) -> set[str]:
    """Quantities of which there is one value and no statistics."""
    figures = list(figures)
    statistics = {figure.quantity for figure in figures if figure.statistic != VALUE}
    return {figure.quantity for figure in figures} - statistics


def _grid(imported: ImportedRecord, title: str, figures: Sequence[FigureRecord]) -> Grid:
    """One row per case and operation, one column per quantity, unit and statistic."""
    rows: dict[_Row, dict[tuple[str, str, str], FigureRecord]] = {}
    plain = _plain(figures)
    for figure in figures:
        column = (figure.quantity, figure.unit, figure.statistic)
        rows.setdefault((figure.case, figure.operation), {})[column] = figure
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    # A band must be in one piece.
    quantities = list(dict.fromkeys(quantity for quantity, _, _ in columns))
    columns.sort(key=lambda column: quantities.index(column[0]))
    several = len(imported.cases) > 1
    labels = dict.fromkeys(name for case in imported.cases for name in case.labels)
    keys = list(labels) if several else []
    operations = any(operation is not None for _, operation in rows)
    return Grid(
        title=title,
        columns=(
            *(Column(name.replace("_", " "), number=False, key=True) for name in keys),
            *([Column("operation", number=False, key=True)] if operations else []),
            *(_column(column, plain) for column in columns),
        ),
        rows=tuple(
            (
                *(Cell(imported.cases[case].labels.get(name, units.ABSENT)) for name in keys),
                *([Cell(operation or units.ABSENT)] if operations else []),
                *(_cell(found.get(column)) for column in columns),
            )
            for (case, operation), found in rows.items()
        ),
        notes=(_ERRORS,) if any(figure.error is not None for figure in figures) else (),
    )


def _column(column: tuple[str, str, str], plain: set[str]) -> Column:
    quantity, unit, statistic = column
    heading = _heading(quantity)
    if quantity in plain:
        return Column(f"{heading} {unit}".strip())
    return Column(statistic, f"{heading}, {unit}" if unit else heading)


def _heading(quantity: str) -> str:
    return f"{quantity} time" if quantity in TIMES else quantity


def _cell(figure: FigureRecord | None) -> Cell:
    return Cell(units.ABSENT if figure is None else f"{figure.value:,}")


def _number(figure: FigureRecord) -> str:
    error = "" if figure.error is None else f" ± {figure.error:,}"
    return f"{figure.value:,}{error}"


def _with_unit(figure: FigureRecord) -> str:
    error = " (standard error)" if figure.error is not None else ""
    return f"{_number(figure)} {figure.unit}".strip() + error
