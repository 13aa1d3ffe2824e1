"""Several runs on one page: their throughput and quantiles beside each other, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import polars as pl

from kvmark.report.charts import vega as charts
from kvmark.report.charts.frames import RunValue, curve_frame, levels_frame
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid
from kvmark.report.model.answers import MOST_CURVES, RunAnswer
from kvmark.report.model.figures import Figure
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import SUCCESSFUL

_NS_PER_S = 1e9
_BARS = "bars are 95 % confidence intervals by what moves within each run"
_QUANTILES = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}


def side_by_side_grid(runs: Sequence[RunAnswer]) -> Grid:
    """A row per run and operation: what the run did in all, then each operation's times."""
    times = [
        each.response.shown_ns("p99")
        for run in runs
        for phase in run.summary.phases
        for each in phase.operations
    ]
    unit = units.time_unit(times)
    apart = _apart(runs)
    rows = [_rows(number, run, apart, unit) for number, run in enumerate(runs, 1)]
    lengths = [len(each) for each in rows]
    return Grid(
        title="Side by side",
        columns=(
            Column("run", key=True),
            Column("of", number=False, key=True),
            Column("ops/s, all"),
            Column("operation", number=False),
            *(Column(name, f"response time, {unit.name}") for name in _QUANTILES.values()),
            Column("verdict", number=False),
        ),
        rows=tuple(row for each in rows for row in each),
        section_starts=frozenset([0, *accumulate(lengths[:-1])]),
        notes=(
            "± is half the width of a 95 % confidence interval over the run's intervals.",
            SUCCESSFUL,
        ),
    )


def _apart(runs: Sequence[RunAnswer]) -> frozenset[str]:
    """The labels of what was asked of each run, and not the same of all."""
    said = [{fact.label: fact.text for fact in run.asked} for run in runs]
    labels = {label for one in said for label in one}
    return frozenset(label for label in labels if len({one.get(label) for one in said}) > 1)


def _rows(
    number: int, run: RunAnswer, apart: frozenset[str], unit: units.TimeUnit
) -> list[tuple[Cell, ...]]:
    of = [run.title, *(fact.text for fact in run.asked if fact.label in apart)]
    return [
        (
            Cell(str(number)),
            Cell(", ".join(of)),
            Cell(units.estimate(phase.throughput), "strong"),
            Cell(each.operation),
            *(Cell(units.duration(each.response.shown_ns(name), unit)) for name in _QUANTILES),
            verdict_cell(run.verdict.judgement),
        )
        for phase in run.summary.phases
        for each in phase.operations
        if not each.part
    ]


def side_by_side_figures(runs: Sequence[RunAnswer]) -> tuple[Figure, ...]:
    """Throughput, response time's quantiles with their intervals, and the quantile curves."""
    rates, quantiles = levels_frame(_rates(runs)), levels_frame(_quantiles(runs))
    drawn = []
    if not rates.is_empty():
        drawn.append(_rates_figure(rates))
    if not quantiles.is_empty():
        drawn.append(_quantiles_figure(quantiles))
    if len(runs) <= MOST_CURVES:
        curves = pl.concat(_curves(runs))
        if not curves.is_empty():
            drawn.append(_curves_figure(curves))
    return tuple(drawn)


def _rates_figure(data: pl.DataFrame) -> Figure:
    return Figure(
        name="throughputs",
        title="Throughput, run by run",
        caption=f"Successful operations per second; {_BARS}.",
        data=data,
        spec=charts.level_chart(data, "operations per second", "run", "panel"),
    )


def _quantiles_figure(data: pl.DataFrame) -> Figure:
    return Figure(
        name="response-quantiles",
        title="Response time, run by run",
        caption=f"Seconds, on a logarithmic axis; {_BARS}.",
        data=data,
        spec=charts.level_chart(data, "seconds", "run", "panel"),
    )


def _curves_figure(data: pl.DataFrame) -> Figure:
    return Figure(
        name="curves",
        title="Response time at every quantile, run by run",
        caption="Each step to the right leaves a tenth of the operations above it.",
        data=data,
        spec=charts.quantile_chart(data),
    )


def _rates(runs: Sequence[RunAnswer]) -> Iterator[RunValue]:
    for number, run in enumerate(runs, 1):
        for phase in run.summary.phases:
            rate = phase.throughput
            yield RunValue(
                "all operations", str(number), "throughput", (rate.value, rate.low, rate.high)
            )


def _quantiles(runs: Sequence[RunAnswer]) -> Iterator[RunValue]:
    for number, run in enumerate(runs, 1):
        for (operation, name), found in run.response_quantiles().items():
            bounds = (found.value / _NS_PER_S, _seconds(found.low), _seconds(found.high))
            yield RunValue(operation, str(number), name, bounds)


def _curves(runs: Sequence[RunAnswer]) -> Iterator[pl.DataFrame]:
    """The points of each run's curves, which its number tells apart."""
    for number, run in enumerate(runs, 1):
        response = [curve for curve in run.curves() if curve.time == "response"]
        yield curve_frame(response).with_columns(pl.lit(f"run {number}").alias("time"))


def _seconds(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_S
