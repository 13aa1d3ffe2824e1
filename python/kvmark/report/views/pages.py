"""The pages of runs and sequences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import polars as pl

from kvmark.analysis.summary.imported import imported_rows
from kvmark.analysis.summary.run import Times
from kvmark.records import TimeName
from kvmark.records.model import TIMES
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Fact, Figure, Page, Provenance, Section
from kvmark.report.model.tables import Cell, Grid, Table, changes
from kvmark.report.model.units import Bounded, listed
from kvmark.report.views import charts, figures, verdicts
from kvmark.report.views.figures import interval_quantiles
from kvmark.report.views.gather import MOST_CURVES, MOST_DRAWN
from kvmark.report.views.run import run_facts, run_grids, run_sentence
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import (
    SUCCESSFUL,
    compared_sequence,
    sequence_grid,
    sequence_sentence,
)

_MOST_SECTIONS: Final = 100
"""Most runs on a page that has a section for each run: 500 sections are 2 MB."""
_NO_SECTIONS: Final = (
    f"A page of more than {_MOST_SECTIONS} runs has no section for each run. Print the other"
    " figures of a run with kvmark show RUN."
)
_UNIQUE: Final = frozenset({
    "Begun", "Clock", "File", "Host", "Imported", "Measured", "SHA-256", "Seeds",
})  # fmt: skip
"""Facts that differ between all runs, or are part of others."""
_BARS: Final = "bars are 95 % confidence intervals by what moves within each run"
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}

_OF_TOOLS: Final = (
    "Another tool's figures are as it gave them, and not judged. Compare them with times of"
    " the same kind: most tools give the service time, without the wait that a stall causes."
)


def sequence_page(answer: SequenceAnswer) -> Page:
    """The YCSB sequence."""
    rows = answer.rows
    if any(row.case.target_rate is not None for row in rows):
        # The throughput is the target: only its response time is of interest.
        drawn = [figures.target_figure(rows)]
    else:
        drawn = [figures.sequence_figure(rows)]
    if answer.curves:
        drawn.append(figures.quantile_figure(answer.curves, "At the largest number of records."))
    return Page(
        title=answer.title,
        question=answer.question,
        answer=" ".join(
            filter(
                None, (answer.caution, sequence_sentence(answer, headline=True), *answer.remarks)
            )
        ),
        counts=verdicts.verdict_counts(row.figures.verdict for row in rows),
        caveats=verdicts.sequence_caveats(answer),
        parts=(
            *compared_sequence(rows),
            Section("every-case", "Every case", grids=(sequence_grid(answer),)),
            Section("figures", "Figures", figures=tuple(drawn)),
        ),
        sources=(answer.provenance,),
    )


def run_page(run: RunAnswer) -> Page:
    """One run."""
    operations = Section("operations", "Operations", facts=run_facts(run), grids=run_grids(run))
    return Page(
        title=run.title, question=f"Run {run.summary.id}, begun {run.summary.created}",
        facts=run.request, answer=run_sentence(run), subjects="runs",
        counts=verdicts.verdict_counts([run.verdict]), caveats=verdicts.run_caveats([run]),
        parts=(operations, Section("figures", "Figures", figures=_run_figures(run, ""))),
        sources=(run.provenance,),
    )  # fmt: skip


def runs_page(runs: Sequence[RunAnswer]) -> Page:
    """Several runs, one after the other."""
    if len(runs) == 1:
        return run_page(runs[0])
    counts = verdicts.verdict_counts(run.verdict for run in runs)
    differences = tuple(_differences(runs))
    labels = [fact.label.lower() for fact in differences] or ["nothing that was asked for"]
    sentences = [f"The runs differ in {listed(labels)}.", _NO_SECTIONS]
    overview = Section(
        name="side-by-side",
        title="Side by side",
        facts=differences if len(runs) <= MOST_DRAWN else (),
        answer=" ".join(sentences[: 2 if len(runs) > _MOST_SECTIONS else 1]),
        grids=(side_by_side_grid(runs),),
        figures=side_by_side_figures(runs),
    )
    return Page(
        title=f"{len(runs)} runs", question="", answer=verdicts.counts_sentence(counts, "run"),
        subjects="runs", counts=counts, caveats=verdicts.run_caveats(runs),
        parts=(overview, *(_run_sections(runs) if len(runs) <= _MOST_SECTIONS else ())),
        sources=tuple(_origins(runs)),
    )  # fmt: skip


def _run_sections(runs: Sequence[RunAnswer]) -> Iterator[Section]:
    """A section per run, which has figures if there are few runs."""
    for number, run in enumerate(runs, 1):
        name = f"run-{number}"
        yield Section(
            name=name,
            title=f"Run {number}: {run.title}, {run.summary.id}",
            facts=(*run.request, *run_facts(run)),
            answer=run_sentence(run),
            grids=run_grids(run),
            figures=_run_figures(run, f"{name}-") if len(runs) <= MOST_DRAWN else (),
        )


def _origins(runs: Sequence[RunAnswer]) -> Iterator[Provenance]:
    """The provenance of each run. Each document is on the page once: later runs refer to it."""
    owners: dict[tuple[str, str], str] = {}
    for run in runs:
        documents, facts = dict[str, object](), [*run.provenance.facts]
        for title, document in run.provenance.documents.items():
            owner = owners.setdefault((title, json.dumps(document)), run.summary.id)
            if owner == run.summary.id:
                documents[title] = document
            elif document:
                facts.append(Fact(title, f"same as {owner}"))
        yield replace(run.provenance, facts=tuple(facts), documents=documents, run=run.summary.id)


def _run_figures(run: RunAnswer, prefix: str) -> tuple[Figure, ...]:
    drawn, intervals = [], run.intervals
    if not intervals.is_empty():
        if intervals["count"].is_not_null().any():
            counted = [phase.name for phase in run.summary.phases]
            shown = ["warm_up", *counted] if counted else []
            drawn.append(figures.rate_figure(intervals, run.phases, run.faults, shown))
        for time in TIMES:
            columns = intervals.select(interval_quantiles(time).values())
            if any(column.is_not_null().any() for column in columns):
                drawn.append(figures.response_figure(intervals, run.phases, run.faults, time))
                break
    if run.curves:
        drawn.append(figures.quantile_figure(run.curves, "The counted phase, by operation."))
    drawn += figures.course_figures(run)
    return tuple(replace(figure, name=f"{prefix}{figure.name}") for figure in drawn)


@dataclass(frozen=True, slots=True)
class _Side:
    """A row of the table of several runs: an operation of kvmark's, or of another tool's."""

    run: int
    title: str
    throughput: Bounded | str
    operation: str
    #: Quantiles by time and name, in nanoseconds.
    times_ns: Mapping[TimeName, Mapping[str, float | None]]
    verdict: Cell


def side_by_side_grid(runs: Sequence[RunAnswer]) -> Grid:
    """The throughput of each run and the times of its operations; a tool's beside kvmark's."""
    numbered = enumerate(zip(runs, _run_titles(runs), strict=True), 1)
    rows = [side for number, (run, title) in numbered for side in _sides(number, title, run)]
    table = Table("Side by side", rows)
    table.key("run", lambda row: row.run, number=True)
    table.key("of", lambda row: row.title)
    table.number("ops/s, all", lambda row: row.throughput, tone="strong")
    table.word("operation", lambda row: row.operation)
    # A tool's times are compared with kvmark's of the same kind.
    others = {time for row in rows for time in row.times_ns if runs[row.run - 1].imported}
    times = [time for time in TIMES if time == "response" or time in others]

    def quantile(time: TimeName, name: str, row: _Side) -> str:
        return units.with_unit(row.times_ns.get(time, {}).get(name))

    for time in times:
        table.numbers(_QUANTILES, partial(quantile, time), f"{time} time")
    table.word("verdict", lambda row: row.verdict)
    notes = [
        "± is half the width of a 95 % confidence interval over the run's intervals.",
        SUCCESSFUL,
        *([_OF_TOOLS] if others else []),
    ]
    return table.grid(notes, changes([row.run for row in rows]))


def _sides(number: int, title: str, run: RunAnswer) -> Iterator[_Side]:
    """The operations of a run; of an imported one those of each case of the file."""
    verdict = verdict_cell(run.verdict.judgement)
    for phase in run.summary.phases:
        for one in phase.operations:
            kinds: dict[TimeName, Times] = {"response": one.response, "service": one.service}
            times = {
                kind: {name: each.shown_ns(name) for name in _QUANTILES}
                for kind, each in kinds.items()
            }
            if not one.part:
                yield _Side(number, title, phase.throughput, one.operation, times, verdict)
    for row in imported_rows(run.imported) if run.imported else ():
        subject = ", ".join([title, *row.labels.values()])
        rate = units.significant(row.throughput or None)
        operation, verdict = row.operation or "all", Cell("not judged", "muted")
        yield _Side(number, subject, rate, operation, row.times_ns, verdict)


def _run_titles(runs: Sequence[RunAnswer]) -> list[str]:
    """The title of each run; of many runs with the parts of its request that differ."""
    measured = [run for run in runs if not run.imported and len(runs) > MOST_DRAWN]
    varied = {fact.label for fact in _differences(measured)}
    facts = [[fact for fact in run.request if not run.imported] for run in runs]
    parts = [[fact.text for fact in of_run if fact.label in varied] for of_run in facts]
    return [", ".join([run.title, *texts]) for run, texts in zip(runs, parts, strict=True)]


def _differences(runs: Sequence[RunAnswer]) -> Iterator[Fact]:
    """The facts in which runs differ: each text with the numbers of its runs."""
    sources = [(*run.provenance.top, *run.provenance.facts, *run.request) for run in runs]
    texts = [{fact.label: fact.text for fact in facts} for facts in sources]
    for label in dict.fromkeys(label for one in texts for label in one if label not in _UNIQUE):
        numbers: dict[str, list[str]] = {}
        for number, one in enumerate(texts, 1):
            numbers.setdefault(one.get(label, "none"), []).append(f"run {number}")
        if len(numbers) > 1:
            parts = (f"{text} ({', '.join(of_text)})" for text, of_text in numbers.items())
            yield Fact(label, "; ".join(parts))


def side_by_side_figures(runs: Sequence[RunAnswer]) -> tuple[Figure, ...]:
    """Throughput, response time's quantiles with their intervals, and the quantile curves."""
    numbered = [(str(number), run) for number, run in enumerate(runs, 1)]
    rates: list[tuple[object, ...]] = [
        ("all operations", number, "throughput", rate.value, rate.low, rate.high, 1)
        for number, run in numbered
        for rate in (phase.throughput for phase in run.summary.phases)
    ]
    quantiles: list[tuple[object, ...]] = [
        (operation, number, name, one.value, one.low, one.high, 1)
        for number, run in numbered
        for (operation, name), one in run.response_quantiles.items()
    ]
    drawn = []
    quantity: charts.Quantity
    for values, name, quantity, title, axis, caption in (
        (rates, "throughputs", "number", "Throughput", "operations per second",
         "Successful operations per second"),
        (quantiles, "response-quantiles", "time", "Response time", "response time",
         "Response time, on a logarithmic axis"),
    ):  # fmt: skip
        data = figures.frame(values, {"panel": str, "run": str, **figures.BOUNDED_SCHEMA})
        if not data.is_empty():
            spec = charts.level_chart(data, axis, "run", quantity=quantity)
            with_bars = f"{caption}; {_BARS}."
            drawn.append(Figure(name, f"{title}, run by run", with_bars, data, spec))
    # The series of a curve is the run's number.
    curves = pl.concat(
        figures.curve_frame([curve for curve in run.curves if curve.time == "response"])
        .with_columns(pl.lit(f"run {number}").alias("time"))
        for number, run in numbered
    )  # fmt: skip
    if not curves.is_empty() and len(runs) <= MOST_CURVES:
        title = "Response time at every quantile, run by run"
        caption = "Each step to the right leaves a tenth of the operations above it."
        drawn.append(Figure("curves", title, caption, curves, charts.quantile_chart(curves)))
    return tuple(drawn)
