"""The tables: the YCSB sequence, and the operations of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Self

from kvmark.analysis import (
    CaseVerdict,
    Judgement,
    OperationSummary,
    PhaseSummary,
    SequenceRow,
    Times,
    Verdict,
)
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone
from kvmark.report.model.answers import SequenceAnswer
from kvmark.report.views.runs_list import verdict_cell

_QUANTILES = {"p50": "p50", "p95": "p95", "p99": "p99"}
_TAIL = {**_QUANTILES, "p999": "p99.9"}


def sequence_grid(answer: SequenceAnswer) -> Grid:
    """The published columns with their errors, then response and service time, then the verdict."""
    rows = answer.rows
    unit = _unit(row.figures.response for row in rows)
    shown = _Shown.of(rows)
    return Grid(
        title=answer.title,
        columns=_sequence_columns(unit, shown),
        rows=tuple(_sequence_row(row, unit, shown) for row in rows),
        section_starts=_section_starts([row.case.workload for row in rows]),
        notes=tuple(_sequence_notes(answer)),
    )


def operations_grid(phase: PhaseSummary, title: str = "Operations") -> Grid:
    """What each kind of operation did in a counted phase."""
    rows = phase.operations
    unit = _unit(row.response for row in rows)
    groups = len({row.group for row in rows}) > 1
    others = any(row.others for row in rows)
    times = [
        Column(name, f"{kind} time, {unit.name}")
        for kind in ("response", "service", "wait")
        for name in (*_TAIL.values(), "max")
    ]
    return Grid(
        title=title,
        columns=(
            *([Column("group", number=False, key=True)] if groups else []),
            Column("operation", number=False, key=True),
            Column("ok", key=True),
            *([Column("otherwise", number=False)] if others else []),
            *times,
        ),
        rows=tuple(_operation_row(row, unit, groups=groups, others=others) for row in rows),
        notes=tuple(_operation_notes(rows)),
    )


def verdict_counts(verdicts: Iterable[Verdict | CaseVerdict]) -> dict[Judgement, int]:
    """How many of each, every word present."""
    counts = dict.fromkeys(Judgement, 0)
    for verdict in verdicts:
        counts[verdict.judgement] += 1
    return counts


@dataclass(frozen=True, slots=True)
class _Shown:
    """Which columns a sequence needs besides those it always has."""

    targets: bool
    apart: bool
    counts: bool
    published: bool

    @classmethod
    def of(cls, rows: Sequence[SequenceRow]) -> Self:
        return cls(
            targets=any(row.case.target_rate is not None for row in rows),
            apart=any(row.case.apart for row in rows),
            counts=len({len(row.figures.runs) for row in rows}) > 1,
            published=any(row.published is not None for row in rows),
        )


def _sequence_columns(unit: units.TimeUnit, shown: _Shown) -> tuple[Column, ...]:
    return (
        Column("workload", number=False, key=True),
        Column("store", number=False, key=True),
        Column("records", key=True),
        *([Column("target ops/s", key=True)] if shown.targets else []),
        *([Column("case", number=False, key=True)] if shown.apart else []),
        Column("runtime ms", "measured"),
        Column("ops/s", "measured"),
        *([Column("n", "measured")] if shown.counts else []),
        *(Column(name, f"response time, {unit.name}") for name in _QUANTILES),
        *(Column(name, f"service time, {unit.name}") for name in _QUANTILES),
        Column("verdict", number=False),
        *((Column("ms", "published"), Column("ops/s", "published")) if shown.published else ()),
    )


def _sequence_row(row: SequenceRow, unit: units.TimeUnit, shown: _Shown) -> tuple[Cell, ...]:
    case, figures, theirs = row.case, row.figures, row.published
    target = "max" if case.target_rate is None else units.significant(case.target_rate)
    beside = (
        Cell(units.significant(theirs.runtime_ms if theirs else None), "muted"),
        Cell(units.significant(theirs.throughput if theirs else None), "muted"),
    )
    return (
        Cell(case.workload),
        Cell(case.store),
        Cell(units.whole(case.records)),
        *([Cell(target)] if shown.targets else []),
        *([Cell(case.apart)] if shown.apart else []),
        Cell(units.estimate(figures.runtime_ms)),
        Cell(units.estimate(figures.throughput), "strong"),
        *([Cell(units.whole(len(figures.runs)))] if shown.counts else []),
        *(Cell(units.duration(figures.response.shown_ns(name), unit)) for name in _QUANTILES),
        *(Cell(units.duration(figures.service.shown_ns(name), unit)) for name in _QUANTILES),
        verdict_cell(figures.verdict.judgement),
        *(beside if shown.published else ()),
    )


def _sequence_notes(answer: SequenceAnswer) -> Iterable[str]:
    yield _error_note(answer.rows)
    if any(row.figures.verdict.runs > 1 for row in answer.rows):
        yield CASE_VERDICT
    yield "Response time runs from the intended start, service time from the issue of an operation."
    yield SUCCESSFUL
    if _lacking(
        time for row in answer.rows for time in (row.figures.response, row.figures.service)
    ):
        yield _LACKING
    if any(row.published for row in answer.rows):
        yield (
            f"Published: {answer.published_source}. "
            "Another machine and another client: for orientation, not a comparison."
        )


def _error_note(rows: Sequence[SequenceRow]) -> str:
    counts = sorted({len(row.figures.runs) for row in rows})
    if all(row.figures.throughput.error is None for row in rows):
        return "One short run per case: no error can be given."
    if counts == [1]:
        return "± is half the width of the 95 % confidence interval over the intervals of one run."
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    alone = "; where n is 1, over the intervals of that run" if counts[0] == 1 else ""
    return (
        f"± is half the width of the 95 % confidence interval of the mean over n = {n} runs{alone}."
    )


def _operation_row(
    row: OperationSummary, unit: units.TimeUnit, *, groups: bool, others: bool
) -> tuple[Cell, ...]:
    tone: Tone = "muted" if row.part else "plain"
    otherwise = ", ".join(f"{units.whole(n)} {name}" for name, n in row.others.items())
    times = [
        units.duration(time, unit)
        for each in (row.response, row.service, row.wait)
        for time in (*(each.shown_ns(name) for name in _TAIL), each.max_ns)
    ]
    return (
        *([Cell(row.group, tone)] if groups else []),
        Cell(f"  {row.operation}" if row.part else row.operation, tone),
        Cell(units.whole(row.count), tone),
        *([Cell(otherwise or units.ABSENT, tone)] if others else []),
        *(Cell(time, tone) for time in times),
    )


def _operation_notes(rows: Sequence[OperationSummary]) -> Iterable[str]:
    if _lacking(time for row in rows for time in (row.response, row.service, row.wait)):
        yield _LACKING
    if any(row.part for row in rows):
        yield "Indented: the parts of a read-modify-write, counted in it already."
    yield SUCCESSFUL


SUCCESSFUL = "Times are those of successful operations."
CASE_VERDICT = "The verdict is that of the case: of its runs together, and their number."
_LACKING = f"{units.ABSENT} stands where fewer than ten operations lie beyond a quantile."


def _lacking(times: Iterable[Times]) -> bool:
    """Whether a quantile can't be shown."""
    return any(each.shown_ns(name) is None for each in times for name in each.quantiles)


def _unit(times: Iterable[Times]) -> units.TimeUnit:
    """The unit that suits all of these."""
    return units.time_unit(each.shown_ns(name) for each in times for name in _QUANTILES)


def _section_starts(names: Sequence[str]) -> frozenset[int]:
    """Where a name differs from the one before it."""
    lengths = [len(list(same)) for _, same in groupby(names)]
    return frozenset([0, *accumulate(lengths[:-1])])
