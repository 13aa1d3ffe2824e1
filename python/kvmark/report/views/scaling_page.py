"""Scaling laws as a page with their figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt
import polars as pl

from kvmark.analysis import Level, Reason, Verdict
from kvmark.analysis.models.scaling import ScalingLaw
from kvmark.report.charts.vega import Spec, log_ticks
from kvmark.report.model.answers import Fact, Provenance
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views import doubts
from kvmark.report.views.scaling import ScalingAnswer, scaling_grids, scaling_sentence

__all__ = ["scaling_figure", "scaling_page"]

MEASURED: Final = "measured"
LAW: Final = "law"
PEAK: Final = "peak"
_WIDTH, _HEIGHT, _COLUMNS = 230, 150, 3
_WIDE, _HIGH = 640, 300
_SCHEMA: Final = {
    "case": pl.String(),
    "series": pl.String(),
    "level": pl.Float64(),
    "throughput": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "from": pl.Float64(),
    "to": pl.Float64(),
}


def scaling_page(answer: ScalingAnswer, command: tuple[str, ...] = ()) -> Page:
    """The laws, their figure, and what speaks against each."""
    laws = answer.laws
    parts = [
        Section(
            "laws",
            "Laws",
            facts=tuple(Fact(law.title, scaling_sentence(law)) for law in laws),
            grids=scaling_grids(answer),
        )
    ]
    if laws:
        parts.append(Section("figure", "Figure", figures=(scaling_figure(laws),)))
    runs = {law.title: [run for point in law.points for run in point.runs] for law in laws}
    documents = {"Runs of each case": runs} if any(runs.values()) else {}
    return Page(
        title=answer.title,
        asked="How does throughput change with the number of those who ask for it, or serve it?",
        facts=(),
        answer=scaling_sentence(laws[0]) if len(laws) == 1 else f"{len(laws)} laws, each below.",
        things="cases",
        counts={},
        doubts=tuple(doubts.of_cases([(law.title, _verdict(law), {}) for law in laws])),
        parts=tuple(parts),
        sources=(Origin("", Provenance((), command, documents)),),
    )


def _verdict(law: ScalingLaw) -> Verdict:
    """The caveats as notes."""
    return Verdict.of(
        Reason(
            code=caveat.code,
            level=Level.NOTE,
            phase=None,
            sentence=caveat.sentence,
            evidence={},
            threshold=None,
            advice=caveat.advice,
        )
        for caveat in law.caveats
    )


def scaling_figure(laws: Sequence[ScalingLaw]) -> Figure:
    """Throughput against the levels, one panel per law."""
    data = _frame(laws)
    over = laws[0].over.replace("_", " ")
    fitted = any(law.fit is not None for law in laws)
    line = " The line is the Universal Scalability Law that fits best." if fitted else ""
    peaks = any(law.claim in ("peak", "predicted peak") for law in laws)
    diamond = " A diamond is its peak, with the interval of where it lies." if peaks else ""
    return Figure(
        name="scaling",
        title=f"Throughput over {over}",
        caption=f"Successful operations per second; the horizontal axis is logarithmic.{line}"
        f"{diamond}",
        data=data,
        spec=_chart(data, over),
    )


def _frame(laws: Sequence[ScalingLaw]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = []
    for law in laws:
        for level, throughput in law.curve:
            rows.append((law.title, LAW, level, throughput, None, None, None, None))
        for point in law.points:
            one = point.throughput
            bounds = (one.low, one.high, None, None)
            rows.append((law.title, MEASURED, point.level, one.value, *bounds))
        fit = law.fit
        if law.claim in ("peak", "predicted peak") and fit and fit.peak and fit.peak_throughput:
            place = (fit.peak.value, fit.peak_throughput.value)
            rows.append((law.title, PEAK, *place, None, None, fit.peak.low, fit.peak.high))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _chart(data: pl.DataFrame, over: str) -> Spec:
    cases = data["case"].unique(maintain_order=True).to_list()
    measured = data.filter(pl.col("series") == MEASURED)["level"].unique().sort().to_list()
    ticks = measured if len(measured) <= 8 else log_ticks(measured)
    x = alt.X("level:Q", title=over).scale(type="log", nice=False, padding=14)
    x = x.axis(format="~s", grid=False, labelOverlap=True, values=ticks)
    y = alt.Y("throughput:Q", title="operations per second").scale(zero=True)
    y = y.axis(format="~s", tickCount=5)
    series = [MEASURED, LAW, PEAK]
    shape = alt.Shape("series:N", legend=None)
    shape = shape.scale(domain=series, range=["circle", "circle", "diamond"])
    base = alt.Chart().encode(x=x, y=y)
    base = base.encode(color=alt.Color("series:N", legend=None).scale(domain=series))
    line = base.transform_filter(f"datum.series == '{LAW}'").mark_line()
    spread = base.transform_filter("isValid(datum.low)").mark_rule()
    spread = spread.encode(y=alt.Y("low:Q"), y2="high:Q")
    place = base.transform_filter("isValid(datum.from) && isValid(datum.to)").mark_rule()
    place = place.encode(x=alt.X("from:Q"), x2="to:Q")
    points = base.transform_filter(f"datum.series != '{LAW}'")
    points = points.mark_point(filled=True, size=52, opacity=1)
    points = points.encode(
        shape=shape,
        tooltip=[
            alt.Tooltip("series:N", title="kind"),
            alt.Tooltip("level:Q", format=",.4~r", title=over),
            alt.Tooltip("throughput:Q", format=",.4~r", title="ops/s"),
        ],
    )
    layers = alt.layer(line, spread, place, points)
    values = alt.InlineData(values=data.to_dicts())
    if len(cases) == 1:
        chart = layers.properties(width=_WIDE, height=_HIGH, data=values)
    else:
        facet = alt.Facet("case:N", sort=cases, header=alt.Header(title=None, labelLimit=_WIDTH))
        layers = layers.properties(width=_WIDTH, height=_HEIGHT)
        columns = min(_COLUMNS, len(cases))
        chart = layers.facet(facet=facet, columns=columns, data=values)
        chart = chart.resolve_scale(y="independent")
    spec: Spec = chart.to_dict()
    spec.pop("config", None)
    return spec
