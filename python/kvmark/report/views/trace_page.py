"""A trace as a page: its sentences and tables, the rate over time, a cache's hit ratio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt
import polars as pl

from kvmark.analysis.trace import TraceAnswer
from kvmark.report.charts.vega import Spec, log_ticks
from kvmark.report.model.answers import Provenance
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views.trace import trace_grids, trace_sentences

__all__ = ["trace_page"]

_WIDTH, _HEIGHT = 640, 220


def trace_page(name: str, answer: TraceAnswer, command: tuple[str, ...]) -> Page:
    """What is in the trace of that name."""
    first, *others = trace_sentences(answer)
    figures = [_rate_figure(answer.rate.course)]
    if answer.hit_ratios:
        figures.append(_hits_figure(answer.hit_ratios))
    return Page(
        title=name,
        asked="What is asked of the store, when, and of which keys?",
        facts=(),
        answer=" ".join((first, *others)),
        things="traces",
        counts={},
        doubts=(),
        parts=(
            Section("figures", "Figures", figures=tuple(figures)),
            Section("tables", "Tables", grids=tuple(trace_grids(answer))),
        ),
        sources=(Origin("", Provenance((), command, {})),),
    )


def _rate_figure(course: Sequence[tuple[float, float]]) -> Figure:
    data = pl.DataFrame(course, schema={"seconds": pl.Float64, "rate": pl.Float64}, orient="row")
    x = alt.X("seconds:Q", title="seconds since the first operation")
    y = alt.Y("rate:Q", title="operations per second").scale(zero=True).axis(format="~s")
    return Figure(
        name="rate",
        title="Rate over time",
        caption=f"Operations per second in {len(data)} equal stretches of time.",
        data=data,
        spec=_line(data, x, y, interpolate="step-after"),
    )


def _hits_figure(ratios: Sequence[tuple[float, float]]) -> Figure:
    data = pl.DataFrame(ratios, schema={"keys": pl.Float64, "hits": pl.Float64}, orient="row")
    x = alt.X("keys:Q", title="keys in the cache").scale(type="log", nice=False)
    x = x.axis(format="~s", values=log_ticks(data["keys"].to_list()), labelOverlap=True)
    y = alt.Y("hits:Q", title="hit ratio of reads").scale(domain=(0, 1))
    return Figure(
        name="hits",
        title="Hit ratio of an LRU cache",
        caption="Of the reads, by the number of keys that the cache holds; what is written is kept"
        " in it too.",
        data=data,
        spec=_line(data, x, y, interpolate="linear"),
    )


def _line(
    data: pl.DataFrame, x: alt.X, y: alt.Y, interpolate: Literal["linear", "step-after"]
) -> Spec:
    chart = alt.Chart(alt.InlineData(values=data.to_dicts()))
    line = chart.mark_line(interpolate=interpolate).encode(x=x, y=y)
    spec: Spec = line.properties(width=_WIDTH, height=_HEIGHT).to_dict()
    spec.pop("config", None)
    return spec
