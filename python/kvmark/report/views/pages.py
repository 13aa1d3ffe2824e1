"""The pages of runs and sequences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from kvmark.analysis.summary.run import OperationSummary, PhaseSummary
from kvmark.records import TimeName
from kvmark.records.model import TIMES
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Fact, Figure, Page, Provenance, Section
from kvmark.report.model.tables import Cell, Column, Field, Grid, build, changes, key, word
from kvmark.report.views import charts, figures
from kvmark.report.views.figures import interval_quantiles
from kvmark.report.views.gather import MOST_CURVES, MOST_DRAWN
from kvmark.report.views.run import run_facts, run_grids, run_sentence
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import SUCCESSFUL, sequence_grid, sequence_sentence, time_fields
from kvmark.report.views.verdicts import (
    counts_sentence,
    run_caveats,
    sequence_caveats,
    verdict_counts,
)

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
        counts=verdict_counts(row.figures.verdict for row in rows),
        caveats=sequence_caveats(answer),
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
        counts=verdict_counts([run.verdict]),
        caveats=run_caveats([run]),
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
    counts = verdict_counts(run.verdict for run in runs)
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
        answer=counts_sentence(counts, "run"),
        subjects="runs",
        counts=counts,
        caveats=run_caveats(runs),
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
    time = _recorded_time(intervals)
    if not intervals.is_empty() and intervals["count"].is_not_null().any():
        drawn.append(figures.rate_figure(intervals, run.phases, run.faults))
    if time is not None:
        drawn.append(figures.response_figure(intervals, run.phases, run.faults, time))
    if run.curves:
        drawn.append(figures.quantile_figure(run.curves, "The counted phase, by operation."))
    drawn += figures.course_figures(run)
    return tuple(figure.renamed(f"{prefix}{figure.name}") for figure in drawn)


def _recorded_time(intervals: pl.DataFrame) -> TimeName | None:
    """The first of the times with quantiles in the intervals."""
    if intervals.is_empty():
        return None
    recorded = (
        time
        for time in TIMES
        if any(intervals[name].is_not_null().any() for name in interval_quantiles(time).values())
    )
    return next(recorded, None)


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
    fields: list[Field[_Row]] = [
        (key("run", number=True), lambda row: str(row[0])),
        (key("of"), lambda row: titles[row[0] - 1]),
        (Column("ops/s, all"), lambda row: Cell(units.estimate(row[2].throughput), "strong")),
        (word("operation"), lambda row: row[3].operation),
        *time_fields("response time", _QUANTILES, unit, lambda row: row[3].response),
        (word("verdict"), lambda row: verdict_cell(row[1].verdict.judgement)),
    ]
    notes = (
        "± is half the width of a 95 % confidence interval over the run's intervals.",
        SUCCESSFUL,
    )
    return build("Side by side", rows, fields, notes, changes([row[0] for row in rows]))


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
    drawn = []
    for values, name, title, unit, caption in (
        (_rates(runs), "throughputs", "Throughput", "operations per second",
         "Successful operations per second"),
        (_quantiles(runs), "response-quantiles", "Response time", "seconds",
         "Seconds, on a logarithmic axis"),
    ):  # fmt: skip
        data = figures.frame(values, {"panel": str, "run": str, **figures.BOUNDED_SCHEMA})
        if not data.is_empty():
            spec = charts.level_chart(data, unit, "run")
            with_bars = f"{caption}; {_BARS}."
            drawn.append(Figure(name, f"{title}, run by run", with_bars, data, spec))
    curves = pl.concat(_curves(runs)) if len(runs) <= MOST_CURVES else pl.DataFrame()
    if not curves.is_empty():
        title = "Response time at every quantile, run by run"
        caption = "Each step to the right leaves a tenth of the operations above it."
        drawn.append(Figure("curves", title, caption, curves, charts.quantile_chart(curves)))
    return tuple(drawn)


def _rates(runs: Sequence[RunAnswer]) -> Iterator[tuple[object, ...]]:
    for number, run in enumerate(runs, 1):
        for phase in run.summary.phases:
            rate = phase.throughput
            place = ("all operations", str(number), "throughput")
            yield (*place, rate.value, rate.low, rate.high, 1)


def _quantiles(runs: Sequence[RunAnswer]) -> Iterator[tuple[object, ...]]:
    for number, run in enumerate(runs, 1):
        for (operation, name), time in run.response_quantiles.items():
            low, high = (None if ns is None else ns / _NS_PER_S for ns in (time.low, time.high))
            yield (operation, str(number), name, time.value / _NS_PER_S, low, high, 1)


def _curves(runs: Sequence[RunAnswer]) -> Iterator[pl.DataFrame]:
    """The points of each run's curves; the series is the run's number."""
    for number, run in enumerate(runs, 1):
        response = [curve for curve in run.curves if curve.time == "response"]
        yield figures.curve_frame(response).with_columns(pl.lit(f"run {number}").alias("time"))
