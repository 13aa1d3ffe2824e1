"""The YCSB sequence: its table and sentences; and the tables of a run's operations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kvmark.analysis.summary.run import OperationSummary, PhaseSummary, Times
from kvmark.analysis.verdict.cases import (
    SEQUENCE_SOURCE,
    CaseSummary,
    Extremes,
    SequenceRow,
    extremes,
)
from kvmark.records.histograms import ATTEMPT, COUNTED_PARTS
from kvmark.report.model import units
from kvmark.report.model.answers import SequenceAnswer
from kvmark.report.model.page import Section
from kvmark.report.model.tables import Grid, Table, changes
from kvmark.report.model.units import Bounded, counts_text
from kvmark.report.views import verdicts
from kvmark.report.views.runs_list import verdict_cell

if TYPE_CHECKING:
    from kvmark.analysis.study import StudyRow

_T = TypeVar("_T")
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99"}
_TAIL: Final = {**_QUANTILES, "p999": "p99.9", "max": "max"}

SUCCESSFUL: Final = "Times are those of successful operations."
CASE_VERDICT: Final = "The verdict is that of the case: of its runs together, and their number."
ERROR: Final = "± is half the width of the 95 % confidence interval"
NO_ERROR: Final = "One short run per case: no error can be given."
DURABILITY: Final = (
    "Writes at durability process survive a kill of the process, at sync a power failure, too."
)
_TOO_FEW: Final = f"{units.ABSENT} stands where fewer than ten operations lie beyond a quantile."
_COMPARED: Final = f"{ERROR}; run: the case's first. Published: {{}}. Machines and clients differ."


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """A case next to its published throughput."""

    levels: Mapping[str, str]
    published: float
    throughput: Bounded | None
    #: Measured over published.
    ratio: Bounded | None
    figures: CaseSummary
    #: The p95 in nanoseconds, where the report has it.
    published_p95_ns: float | None = None
    #: Failed operations of a run, on average.
    errors: float | None = None


def compared_section(
    cases: Iterable[ComparedCase], unit: str, source: str | None
) -> tuple[Section, ...]:
    """The section of the cases with published figures; none without such cases."""
    rows = list(cases)
    if not rows:
        return ()

    def level(name: str, row: ComparedCase) -> str:
        return row.levels[name]

    table = Table("", rows)
    levels = {name: {row.levels[name] for row in rows} for name in rows[0].levels}
    for name in [name for name, found in levels.items() if len(found) > 1] or levels:
        is_number = all(map(str.isdecimal, levels[name]))
        table.key(name, partial(level, name), number=is_number)
    table.number(unit, lambda row: row.published, "published", "muted")
    table.number(unit, lambda row: row.throughput, "measured", "strong")
    table.number("measured ÷ published", lambda row: row.ratio)
    if any(row.published_p95_ns for row in rows):
        table.number("p95", lambda row: units.with_unit(row.published_p95_ns), "published", "muted")
        times = {"p95": "service p95"}
        add_times(table, "measured", times, lambda row: row.figures.service)
    if any(row.errors for row in rows):
        table.number("errors", lambda row: row.errors)
    table.word("verdict", lambda row: verdict_cell(row.figures.verdict.judgement))
    table.word("run", lambda row: row.figures.runs[0], tone="muted")
    grid = table.grid((_COMPARED.format(source),))
    return (Section("comparison", "Published and measured", grids=(grid,)),)


def sequence_sentence(answer: SequenceAnswer, *, headline: bool = False) -> str:
    """The fastest and the slowest case, and the number of cases by verdict.

    A headline has the number only where no case is placed.
    """
    rows = answer.rows

    def speed(row: SequenceRow) -> str:
        return f"{units.estimate(row.figures.throughput)} ops/s{published_note(row)}"

    ends = extremes(rows, lambda row: row.figures.throughput, lambda row: row.figures.verdict)
    counts = verdicts.verdict_counts(row.figures.verdict for row in rows)
    sentence = placed_sentence if headline else ends_sentence
    placed = sentence(ends, lambda row: row.case.title, speed)
    number = "" if headline and placed else verdicts.counts_sentence(counts, "case")
    return f"{placed} {number}".strip()


def published_note(row: SequenceRow | StudyRow) -> str:
    """The published throughput of a case where it is known."""
    value = getattr(row.published, "throughput", None)
    return f", published {units.significant(value)}" if value else ""


def sequence_grid(answer: SequenceAnswer) -> Grid:
    """Published columns with errors, then response and service time, then the verdict."""
    rows = answer.rows
    table = Table(answer.title, rows)
    table.key("workload", lambda row: row.case.workload)
    table.key("store", lambda row: row.case.store)
    table.key("records", lambda row: row.case.records, number=True)
    if any(row.case.target_rate is not None for row in rows):
        table.key("target ops/s", _target, number=True)
    if any(row.case.apart for row in rows):
        table.key("case", lambda row: row.case.apart)
    table.number("runtime ms", lambda row: row.figures.runtime_ms, "measured")
    table.number("ops/s", lambda row: row.figures.throughput, "measured", "strong")
    if len({len(row.figures.runs) for row in rows}) > 1:
        table.number("n", lambda row: len(row.figures.runs), "measured")
    add_times(table, "response time", _QUANTILES, lambda row: row.figures.response)
    add_times(table, "service time", _QUANTILES, lambda row: row.figures.service)
    table.word("verdict", lambda row: verdict_cell(row.figures.verdict.judgement))
    if any(row.published is not None for row in rows):
        for heading, name in (("ms", "runtime_ms"), ("ops/s", "throughput")):
            table.number(heading, partial(published_cell, name), "published", "muted")
    starts = changes([row.case.workload for row in rows])
    return table.grid(_sequence_notes(answer), starts)


def _target(row: SequenceRow) -> str:
    rate = row.case.target_rate
    return "max" if rate is None else units.significant(rate)


def compared_sequence(rows: Iterable[SequenceRow]) -> tuple[Section, ...]:
    """The cases of a sequence that were published."""
    compared = []
    for row in rows:
        if row.published is not None:
            levels = {
                name: str(getattr(row.case, name)) for name in ("workload", "store", "records")
            }
            published, measured = row.published.throughput, row.figures.throughput
            ratio = measured.put(partial(operator.mul, 1 / published), "")
            compared.append(ComparedCase(levels, published, measured, ratio, row.figures))
    return compared_section(compared, "ops/s", SEQUENCE_SOURCE)


def published_cell(name: str, row: SequenceRow | StudyRow) -> str:
    """A published figure of a case; a dash where the report has none."""
    figure = getattr(row.published, name, None)
    return figure if isinstance(figure, str) else units.significant(figure)


def add_times(
    table: Table[_T],
    title: str,
    headings: Mapping[str, str],
    times: Callable[[_T], Times],
) -> None:
    """Adds columns of quantiles, whose headings are given by name, and of `max`."""
    table.numbers(headings, lambda name, row: units.with_unit(time_ns(times(row), name)), title)


def time_ns(times: Times, name: str) -> float | None:
    """A quantile, `mean` or `max`; none with too few operations."""
    return {"mean": times.mean_ns, "max": times.max_ns}.get(name, times.shown_ns(name))


def operations_table(title: str, rows: Sequence[OperationSummary]) -> Table[OperationSummary]:
    """The operations of a phase by kind, with their counts; parts are indented."""
    table = Table(title, rows, lambda row: "muted" if row.part else "plain")
    if len({row.group for row in rows}) > 1:
        table.key("group", lambda row: row.group)
    table.key("operation", lambda row: f"  {row.operation}" if row.part else row.operation)
    table.key("ok", lambda row: row.count, number=True)
    if any(row.others for row in rows):
        table.word("otherwise", lambda row: counts_text(row.others) or units.ABSENT)
    return table


def operations_grid(phase: PhaseSummary, title: str = "Operations") -> Grid:
    """The operations of a counted phase by kind."""
    rows = phase.operations
    table = operations_table(title, rows)
    add_times(table, "response time", _TAIL, lambda row: row.response)
    add_times(table, "service time", _TAIL, lambda row: row.service)
    add_times(table, "wait time", _TAIL, lambda row: row.wait)
    notes = [SUCCESSFUL]
    parts = {row.operation for row in rows if row.part}
    if parts & {*COUNTED_PARTS} - {ATTEMPT}:
        notes.insert(0, "Indented: the parts of a read-modify-write, counted in it already.")
    if parts - {*COUNTED_PARTS}:
        notes.insert(0, "Indented: writes after a miss, not counted in ops/s.")
    if ATTEMPT in parts:
        notes.insert(0, f"{ATTEMPT}: the attempts of all operations, counted in them already.")
    if _has_gap(time for row in rows for time in (row.response, row.service, row.wait)):
        notes.insert(0, _TOO_FEW)
    return table.grid(notes)


def store_facts(answer: SequenceAnswer, store: str) -> Iterator[str]:
    """What distinguishes a store beside its speed."""
    facts = answer.stores.get(store)
    if facts is None:
        return
    if facts.durability:
        yield f"durability {facts.durability}"
    if facts.disk_bytes:
        yield f"{units.size(facts.disk_bytes)} on disk"
    if facts.peak_memory_bytes:
        yield f"{units.size(facts.peak_memory_bytes)} of memory"


def _sequence_notes(answer: SequenceAnswer) -> Iterable[str]:
    rows = answer.rows
    yield _error_note(rows)
    for store in answer.stores:
        yield f"{store}: {'; '.join(store_facts(answer, store))}."
    if any(facts.durability for facts in answer.stores.values()):
        yield DURABILITY
    if any(row.figures.verdict.runs > 1 for row in rows):
        yield CASE_VERDICT
    yield "Response time runs from the intended start, service time from the issue of an operation."
    yield SUCCESSFUL
    if _has_gap(time for row in rows for time in (row.figures.response, row.figures.service)):
        yield _TOO_FEW
    if any(row.published for row in rows):
        yield (
            f"Published: {SEQUENCE_SOURCE}. "
            "Another machine and another client: for orientation, not a comparison."
        )


def _error_note(rows: Sequence[SequenceRow]) -> str:
    counts, has_error = repetitions(rows)
    if not has_error:
        return NO_ERROR
    if counts == "1":
        return f"{ERROR} over the intervals of one run."
    single = "; where n is 1, over the intervals of that run" if counts.startswith("1 ") else ""
    return f"{ERROR} of the mean over n = {counts} runs{single}."


def repetitions(rows: Sequence[SequenceRow]) -> tuple[str, bool]:
    """The number of runs of a case, and whether a case has an error."""
    counts = [len(row.figures.runs) for row in rows]
    text = " to ".join(dict.fromkeys(map(units.whole, (min(counts), max(counts)))))
    return text, any(row.figures.throughput.error is not None for row in rows)


def _has_gap(times: Iterable[Times]) -> bool:
    """Whether a quantile has too few operations beyond it."""
    return any(each.shown_ns(name) is None for each in times for name in each.quantiles)


def ends_sentence(
    ends: Extremes[_T], title: Callable[[_T], str], speed: Callable[[_T], str]
) -> str:
    """The fastest and slowest cases, as far as they differ; empty without a case."""
    placed = placed_sentence(ends, title, speed)
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


def placed_sentence(
    ends: Extremes[_T], title: Callable[[_T], str], speed: Callable[[_T], str]
) -> str:
    """The fastest and slowest of the cases that are placed; empty without one."""

    def at(case: _T) -> str:
        return f"{title(case)}, {speed(case)}"

    def end(cases: Sequence[_T]) -> str:
        first, *others = cases
        return at(first) + (f" (overlaps {len(others)} more)" if others else "")

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
    chosen = "Fastest VALID case" if ends.left_out else "Fastest"
    return f"{chosen}: {end(ends.fastest)}; slowest: {end(ends.slowest)}."
