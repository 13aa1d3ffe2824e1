"""The pages of runs and sequences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from kvmark.analysis.summary.run import OperationSummary, PhaseSummary
from kvmark.records.model import TIMES
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Fact, Figure, Page, Provenance, Section
from kvmark.report.model.tables import Grid, Table, changes
from kvmark.report.views import charts, figures, verdicts
from kvmark.report.views.figures import interval_quantiles
from kvmark.report.views.gather import MOST_CURVES, MOST_DRAWN
from kvmark.report.views.run import run_facts, run_grids, run_sentence
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import SUCCESSFUL, add_times, sequence_grid, sequence_sentence

_MOST_SECTIONS: Final = 100
"""Most runs on a page that has a section for each run: 500 sections are 2 MB."""
_NO_SECTIONS: Final = (
    f"A page of more than {_MOST_SECTIONS} runs has no section for each run. Print the other"
    " figures of a run with kvmark show RUN."
)
_NS_PER_S: Final = 1e9
_BARS: Final = "bars are 95 % confidence intervals by what moves within each run"
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}

_Row = tuple[int, RunAnswer, PhaseSummary, OperationSummary]
"""The number of a run, the run, a phase of it and an operation."""


def sequence_page(answer: SequenceAnswer) -> Page:
    """The YCSB sequence."""
    rows, source = answer.rows, answer.published_source
    if any(row.case.target_rate is not None for row in rows):
        # The throughput is the target: only its response time is of interest.
        drawn = [figures.target_figure(rows)]
    else:
        drawn = [
            figures.sequence_figure(rows, "throughput", source),
            figures.sequence_figure(rows, "runtime_ms", source),
        ]
    if answer.curves:
        drawn.append(figures.quantile_figure(answer.curves, "At the largest number of records."))
    return Page(
        title=answer.title,
        question=answer.question,
        answer=" ".join((sequence_sentence(answer), *answer.remarks)),
        counts=verdicts.verdict_counts(row.figures.verdict for row in rows),
        caveats=verdicts.sequence_caveats(answer),
        parts=(
            Section("every-case", "Every case", grids=(sequence_grid(answer),)),
            Section("figures", "Figures", figures=tuple(drawn)),
        ),
        sources=(answer.provenance,),
    )


def run_page(run: RunAnswer) -> Page:
    """One run."""
    return Page(
        title=run.title,
        question=f"Run {run.summary.id}, begun {run.summary.created}",
        facts=run.request,
        answer=run_sentence(run),
        subjects="runs",
        counts=verdicts.verdict_counts([run.verdict]),
        caveats=verdicts.run_caveats([run]),
        parts=(
            Section("operations", "Operations", facts=run_facts(run), grids=run_grids(run)),
            Section("figures", "Figures", figures=_run_figures(run, "")),
        ),
        sources=(run.provenance,),
    )


def runs_page(runs: Sequence[RunAnswer]) -> Page:
    """Several runs, one after the other."""
    if len(runs) == 1:
        return run_page(runs[0])
    counts = verdicts.verdict_counts(run.verdict for run in runs)
    overview = Section(
        name="side-by-side",
        title="Side by side",
        answer=_NO_SECTIONS if len(runs) > _MOST_SECTIONS else "",
        grids=(side_by_side_grid(runs),),
        figures=side_by_side_figures(runs),
    )
    return Page(
        title=f"{len(runs)} runs",
        question="",
        answer=verdicts.counts_sentence(counts, "run"),
        subjects="runs",
        counts=counts,
        caveats=verdicts.run_caveats(runs),
        parts=(overview, *(_run_sections(runs) if len(runs) <= _MOST_SECTIONS else ())),
        sources=tuple(_origins(runs)),
    )


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
            drawn.append(figures.rate_figure(intervals, run.phases, run.faults))
        for time in TIMES:
            columns = intervals.select(interval_quantiles(time).values())
            if any(column.is_not_null().any() for column in columns):
                drawn.append(figures.response_figure(intervals, run.phases, run.faults, time))
                break
    if run.curves:
        drawn.append(figures.quantile_figure(run.curves, "The counted phase, by operation."))
    drawn += figures.course_figures(run)
    return tuple(replace(figure, name=f"{prefix}{figure.name}") for figure in drawn)


def side_by_side_grid(runs: Sequence[RunAnswer]) -> Grid:
    """The throughput of each run and the times of its operations."""
    unit = units.time_unit(
        operation.response.shown_ns("p99")
        for run in runs
        for phase in run.summary.phases
        for operation in phase.operations
    )
    rows: list[_Row] = [
        (number, run, phase, operation)
        for number, run in enumerate(runs, 1)
        for phase in run.summary.phases
        for operation in phase.operations
        if not operation.part
    ]
    titles = _run_titles(runs)
    table = Table("Side by side", rows)
    table.key("run", lambda row: row[0], number=True)
    table.key("of", lambda row: titles[row[0] - 1])
    table.number("ops/s, all", lambda row: row[2].throughput, tone="strong")
    table.word("operation", lambda row: row[3].operation)
    add_times(table, "response time", _QUANTILES, unit, lambda row: row[3].response)
    table.word("verdict", lambda row: verdict_cell(row[1].verdict.judgement))
    notes = (
        "± is half the width of a 95 % confidence interval over the run's intervals.",
        SUCCESSFUL,
    )
    return table.grid(notes, changes([row[0] for row in rows]))


def _run_titles(runs: Sequence[RunAnswer]) -> list[str]:
    """The title of each run, with the parts of its request that differ between runs."""
    requests = [{fact.label: fact.text for fact in run.request} for run in runs]
    labels = {label for request in requests for label in request}
    varied = {label for label in labels if len({one.get(label) for one in requests}) > 1}
    return [
        ", ".join([run.title, *(fact.text for fact in run.request if fact.label in varied)])
        for run in runs
    ]


def side_by_side_figures(runs: Sequence[RunAnswer]) -> tuple[Figure, ...]:
    """Throughput, response time's quantiles with their intervals, and the quantile curves."""
    numbered = [(str(number), run) for number, run in enumerate(runs, 1)]
    rates: list[tuple[object, ...]] = [
        ("all operations", number, "throughput", rate.value, rate.low, rate.high, 1)
        for number, run in numbered
        for rate in (phase.throughput for phase in run.summary.phases)
    ]
    quantiles: list[tuple[object, ...]] = [
        (
            operation,
            number,
            name,
            *(ns and ns / _NS_PER_S for ns in (one.value, one.low, one.high)),
            1,
        )
        for number, run in numbered
        for (operation, name), one in run.response_quantiles.items()
    ]
    drawn = []
    for values, name, title, unit, caption in (
        (rates, "throughputs", "Throughput", "operations per second",
         "Successful operations per second"),
        (quantiles, "response-quantiles", "Response time", "seconds",
         "Seconds, on a logarithmic axis"),
    ):  # fmt: skip
        data = figures.frame(values, {"panel": str, "run": str, **figures.BOUNDED_SCHEMA})
        if not data.is_empty():
            spec = charts.level_chart(data, unit, "run")
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
