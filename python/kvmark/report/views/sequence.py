"""The YCSB sequence: its table and sentences; and the tables of a run's operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from rich.text import Text

from kvmark.analysis.summary.run import OperationSummary, PhaseSummary, Times
from kvmark.analysis.verdict.cases import Extremes, SequenceRow, extremes
from kvmark.report.model import tables, units
from kvmark.report.model.answers import SequenceAnswer
from kvmark.report.model.units import TimeUnit, counts_text, listed
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.verdicts import (
    caveat_texts,
    counts_sentence,
    sequence_caveats,
    verdict_counts,
)

_T = TypeVar("_T")
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99"}
_TAIL: Final = {**_QUANTILES, "p999": "p99.9", "max": "max"}
_MOST_NAMED: Final = 3

SUCCESSFUL: Final = "Times are those of successful operations."
CASE_VERDICT: Final = "The verdict is that of the case: of its runs together, and their number."
_TOO_FEW: Final = f"{units.ABSENT} stands where fewer than ten operations lie beyond a quantile."


def sequence_text(answer: SequenceAnswer, width: int) -> Text:
    """The sequence for a terminal: the table, the answer, then every verdict reason."""
    sentences = (sequence_sentence(answer), *answer.remarks)
    return tables.stacked([
        tables.to_text(sequence_grid(answer), width),
        [line for sentence in sentences for line in tables.sentence_lines(sentence, width)],
        *caveat_texts(sequence_caveats(answer), width),
    ])  # fmt: skip


def sequence_sentence(answer: SequenceAnswer) -> str:
    """The fastest and the slowest case, and the number of cases by verdict."""
    rows = answer.rows
    if not rows:
        return "Nothing was measured."
    ends = ends_sentence(
        extremes(rows, lambda row: row.figures.throughput, lambda row: row.figures.verdict),
        lambda row: row.case.title,
        lambda row: f"{units.estimate(row.figures.throughput)} ops/s",
    )
    counts = verdict_counts(row.figures.verdict for row in rows)
    return f"{ends} {counts_sentence(counts, 'case')}".lstrip()


def sequence_grid(answer: SequenceAnswer) -> tables.Grid:
    """Published columns with errors, then response and service time, then the verdict."""
    rows = answer.rows
    unit = _unit(row.figures.response for row in rows)
    fields: list[tables.Field[SequenceRow]] = [
        (tables.key("workload"), lambda row: row.case.workload),
        (tables.key("store"), lambda row: row.case.store),
        (tables.key("records", number=True), lambda row: units.whole(row.case.records)),
    ]
    if any(row.case.target_rate is not None for row in rows):
        fields.append((tables.key("target ops/s", number=True), _target))
    if any(row.case.apart for row in rows):
        fields.append((tables.key("case"), lambda row: row.case.apart))
    fields += [
        (
            tables.Column("runtime ms", "measured"),
            lambda row: units.estimate(row.figures.runtime_ms),
        ),
        (
            tables.Column("ops/s", "measured"),
            lambda row: tables.Cell(units.estimate(row.figures.throughput), "strong"),
        ),
    ]
    if len({len(row.figures.runs) for row in rows}) > 1:
        fields.append(
            (tables.Column("n", "measured"), lambda row: units.whole(len(row.figures.runs)))
        )
    fields += [
        *time_fields("response time", _QUANTILES, unit, lambda row: row.figures.response),
        *time_fields("service time", _QUANTILES, unit, lambda row: row.figures.service),
        (tables.word("verdict"), lambda row: verdict_cell(row.figures.verdict.judgement)),
    ]
    if any(row.published is not None for row in rows):
        fields += [
            (tables.Column("ms", "published"), lambda row: _published(row, "runtime_ms")),
            (tables.Column("ops/s", "published"), lambda row: _published(row, "throughput")),
        ]
    starts = tables.changes([row.case.workload for row in rows])
    return tables.build(answer.title, rows, fields, _sequence_notes(answer), starts)


def _target(row: SequenceRow) -> str:
    rate = row.case.target_rate
    return "max" if rate is None else units.significant(rate)


def _published(row: SequenceRow, name: str) -> tables.Cell:
    return tables.Cell(units.significant(getattr(row.published, name, None)), "muted")


def time_fields(
    title: str, names: Mapping[str, str], unit: TimeUnit, times: Callable[[Any], Times]
) -> list[tables.Field[Any]]:
    """Columns of quantiles, whose headings are given by name, and of `max`."""

    def cell(name: str, value: object) -> str:
        each = times(value)
        return units.duration(each.max_ns if name == "max" else each.shown_ns(name), unit)

    band = f"{title}, {unit.name}"
    return [(tables.Column(heading, band), partial(cell, name)) for name, heading in names.items()]


def operations_grid(phase: PhaseSummary, title: str = "Operations") -> tables.Grid:
    """The operations of a counted phase by kind."""
    rows = phase.operations
    unit = _unit(row.response for row in rows)
    fields: list[tables.Field[OperationSummary]] = [
        (tables.key("operation"), lambda row: f"  {row.operation}" if row.part else row.operation),
        (tables.key("ok", number=True), lambda row: units.whole(row.count)),
    ]
    if len({row.group for row in rows}) > 1:
        fields.insert(0, (tables.key("group"), lambda row: row.group))
    if any(row.others for row in rows):
        fields.append(
            (tables.word("otherwise"), lambda row: counts_text(row.others) or units.ABSENT)
        )
    fields += [
        *time_fields("response time", _TAIL, unit, lambda row: row.response),
        *time_fields("service time", _TAIL, unit, lambda row: row.service),
        *time_fields("wait time", _TAIL, unit, lambda row: row.wait),
    ]
    notes = [SUCCESSFUL]
    if any(row.part for row in rows):
        notes.insert(0, "Indented: the parts of a read-modify-write, counted in it already.")
    if _has_gap(time for row in rows for time in (row.response, row.service, row.wait)):
        notes.insert(0, _TOO_FEW)
    return tables.build(
        title, rows, fields, notes, row_tone=lambda row: "muted" if row.part else "plain"
    )


def _sequence_notes(answer: SequenceAnswer) -> Iterable[str]:
    rows = answer.rows
    yield _error_note(rows)
    if any(row.figures.verdict.runs > 1 for row in rows):
        yield CASE_VERDICT
    yield "Response time runs from the intended start, service time from the issue of an operation."
    yield SUCCESSFUL
    if _has_gap(time for row in rows for time in (row.figures.response, row.figures.service)):
        yield _TOO_FEW
    if any(row.published for row in rows):
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
    single = "; where n is 1, over the intervals of that run" if counts[0] == 1 else ""
    return (
        f"± is half the width of the 95 % confidence interval of the mean over n = {n} runs"
        f"{single}."
    )


def _has_gap(times: Iterable[Times]) -> bool:
    """Whether a quantile has too few operations beyond it."""
    return any(each.shown_ns(name) is None for each in times for name in each.quantiles)


def _unit(times: Iterable[Times]) -> TimeUnit:
    return units.time_unit(each.shown_ns(name) for each in times for name in _QUANTILES)


def ends_sentence(
    ends: Extremes[_T], title: Callable[[_T], str], speed: Callable[[_T], str]
) -> str:
    """The fastest and slowest cases, as far as they differ; empty without a case."""
    placed = _placed_sentence(ends, title, speed)
    excluded = len(ends.left_out)
    if not excluded:
        return placed
    if excluded == 1 and not ends.placed:
        (only,) = ends.left_out
        return f"Throughput of {title(only)} is {speed(only)}."
    if not ends.placed:
        return "No case is the fastest: none is VALID and known precisely enough to say so."
    cases = "One case isn't" if excluded == 1 else f"{excluded} cases aren't"
    return f"{placed} {cases} VALID and precise, and in no comparison."


def _placed_sentence(
    ends: Extremes[_T], title: Callable[[_T], str], speed: Callable[[_T], str]
) -> str:
    def at(case: _T) -> str:
        return f"{title(case)}, at {speed(case)}"

    def end(cases: Sequence[_T]) -> str:
        first, *others = cases
        if not others:
            return f"is {at(first)}"
        names = [title(case) for case in others[:_MOST_NAMED]]
        if len(others) > _MOST_NAMED:
            names.append(f"{len(others) - _MOST_NAMED} more")
        return f"are {at(first)}, with {listed(names)}, whose intervals overlap its own"

    if not ends.placed:
        return ""
    fastest, slowest = ends.fastest[0], ends.slowest[0]
    if ends.placed == 1:
        return f"Throughput of {title(fastest)} is {speed(fastest)}."
    if not ends.apart:
        return (
            f"No case is the fastest: the intervals of the highest throughput, {at(fastest)}, and"
            f" of the lowest, {at(slowest)}, overlap."
        )
    case = " case" if len(ends.fastest) == 1 else ""
    return f"The fastest{case} {end(ends.fastest)}; the slowest {end(ends.slowest)}."
