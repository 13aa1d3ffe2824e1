"""Specifications of charts, and the themes with which they are drawn.

Series differ by shape and line as well as by colour. Marks that one sees on pointing at them say
the numbers behind them. Series have Okabe and Ito's colours, safe for the colour-blind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import altair as alt
import polars as pl

from kvmark.analysis import FaultSpan
from kvmark.report.charts.frames import PUBLISHED
from kvmark.report.model.answers import PhaseSpan

#: A Vega-Lite specification.
Spec = dict[str, Any]
_Look = TypeVar("_Look")

# Vega's expression for a time in the unit that suits it.
_TIME_LABEL = (
    "datum.{0} >= 1e9 ? format(datum.{0} / 1e9, '{1}') + ' s' : "
    "datum.{0} >= 1e6 ? format(datum.{0} / 1e6, '{1}') + ' ms' : "
    "datum.{0} >= 1e3 ? format(datum.{0} / 1e3, '{1}') + ' µs' : format(datum.{0}, '{1}') + ' ns'"
)
_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_COLUMNS = 230, 150, 3
_WIDE_WIDTH, _WIDE_HEIGHT = 760, 220
# A phase that is narrower than its name is not named: the next one's name stands there.
_LEAST_NAMED = 0.05
# Room for the names of phases between a chart and its legend.
_ABOVE_PHASES = 30
# More names than this in a row are wider than the panels under them.
_LEGEND_COLUMNS = 4
# As many as a theme has colours.
_SHAPES = ("circle", "diamond", "square", "triangle-up")
_DASHES = ([1, 0], [5, 3], [2, 2], [8, 2, 2, 2])
# Where 1 / (1 - quantile) meets the percentiles people name.
_PERCENTILES = {
    2: "50", 10: "90", 100: "99", 1_000: "99.9", 10_000: "99.99", 100_000: "99.999",
}  # fmt: skip
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def sequence_chart(data: pl.DataFrame, title: str) -> Spec:
    """A value against the number of records, one panel per workload, both axes logarithmic."""
    return level_chart(data, title, "records", "workload")


def level_chart(data: pl.DataFrame, title: str, across: str, panel: str) -> Spec:
    """A value against a column, one panel per value of another, on a logarithmic axis.

    Numbers stand on a logarithmic axis too, words side by side.
    """
    legend = alt.Legend(title=None, symbolStrokeWidth=0, columns=_LEGEND_COLUMNS)
    style = _SeriesStyle.of(data, "series", legend)
    x = _level_axis(data, across)
    y = alt.Y("value:Q", title=title).scale(type="log", nice=False, padding=10)
    y = y.axis(format="~s", values=log_ticks(data["value"].to_list()))
    base = alt.Chart().encode(x=x, y=y, color=style.color)
    place = alt.Tooltip(f"{across}:Q", format=",")
    tooltip = [
        alt.Tooltip(f"{panel}:N"), alt.Tooltip("series:N"),
        place if data[across].dtype.is_numeric() else alt.Tooltip(f"{across}:N"),
        alt.Tooltip("value:Q", format=",.4~r", title=title),
        alt.Tooltip("low:Q", format=",.4~r", title="from"),
        alt.Tooltip("high:Q", format=",.4~r", title="to"), alt.Tooltip("runs:Q"),
    ]  # fmt: skip
    lines = base.mark_line().encode(strokeDash=style.dash)
    bars = base.transform_filter("isValid(datum.low) && datum.low > 0")
    bars = bars.mark_rule().encode(y="low:Q", y2="high:Q")
    points = base.mark_point(filled=True, size=52, opacity=1)
    points = points.encode(shape=style.shape, tooltip=tooltip)
    # Between words there is nothing that a line could run through.
    joined = [lines] if data[across].dtype.is_numeric() else []
    known = [bars] if data["low"].is_not_null().any() else []
    return _panels(alt.layer(*joined, *known, points), data, panel, style)


def target_chart(data: pl.DataFrame) -> Spec:
    """Response time against throughput, one panel per workload, both axes logarithmic."""
    legend = alt.Legend(title=None, symbolStrokeWidth=0, columns=_LEGEND_COLUMNS)
    style = _SeriesStyle.of(data, "series", legend)
    x = alt.X("throughput:Q", title="operations per second").scale(type="log", nice=False)
    x = x.axis(format="~s", values=log_ticks(data["throughput"].to_list()), labelOverlap=True)
    y = _time_axis("ns", "response time", data["ns"].to_list())
    tooltip = [
        alt.Tooltip("workload:N"), alt.Tooltip("series:N"),
        alt.Tooltip("throughput:Q", format=",.4~r"), alt.Tooltip("shown:N", title="time"),
    ]  # fmt: skip
    chart = alt.Chart().transform_calculate(shown=_TIME_LABEL.format("ns", ".4~r"))
    chart = chart.encode(x=x, y=y, color=style.color)
    lines = chart.mark_line().encode(strokeDash=style.dash, order="throughput:Q")
    points = chart.mark_point(filled=True, size=52, opacity=1)
    points = points.encode(shape=style.shape, tooltip=tooltip)
    return _panels(alt.layer(lines, points), data, "workload", style)


def _level_axis(data: pl.DataFrame, across: str) -> alt.X:
    """The axis of levels: logarithmic for numbers, in order of appearance for words."""
    levels = data[across].unique(maintain_order=True).to_list()
    if not data[across].dtype.is_numeric():
        return alt.X(f"{across}:N", title=across, sort=levels).axis(labelAngle=0)
    levels.sort()
    ticks = {"values": levels} if len(levels) <= 6 else {"tickCount": 4}
    x = alt.X(f"{across}:Q", title=across).scale(type="log", nice=False, padding=14)
    return x.axis(format="~s", grid=False, labelOverlap=True, **ticks)


def quantile_chart(data: pl.DataFrame) -> Spec:
    """Times against quantiles, the tail stretched, one panel per workload or operation."""
    style = _SeriesStyle.of(data, "time", _line_legend())
    labels = "".join(f"datum.value == {at} ? '{name}' : " for at, name in _PERCENTILES.items())
    x = alt.X("tail:Q", title="percentile").scale(type="log", nice=False)
    x = x.axis(values=list(_PERCENTILES), labelExpr=f"{labels}''", labelOverlap=True)
    y = _time_axis("ns", None, data["ns"].to_list())
    tooltip = [
        alt.Tooltip("panel:N", title="of"), alt.Tooltip("time:N", title="kind"),
        alt.Tooltip("quantile:Q", format=".6~r"), alt.Tooltip("shown:N", title="time"),
    ]  # fmt: skip
    chart = alt.Chart().transform_calculate(
        tail="1 / (1 - datum.quantile)", shown=_TIME_LABEL.format("ns", ".4~r")
    )
    chart = chart.encode(x=x, y=y, color=style.color)
    lines = chart.mark_line(interpolate="step-after").encode(strokeDash=style.dash)
    return _panels(alt.layer(lines, _hover_points(chart, tooltip)), data, "panel", style)


def rate_chart(
    data: pl.DataFrame, phases: Sequence[PhaseSpan], faults: Sequence[FaultSpan] = ()
) -> Spec:
    """Counts of intervals as rates, over the run's time."""
    chart = alt.Chart(_inline(data)).transform_calculate(
        rate="datum.value * 1e9 / (datum.end_ns - datum.start_ns)"
    )
    y = alt.Y("rate:Q", title="operations per second").scale(zero=True)
    y = y.axis(format="~s", tickCount=5)
    value = alt.Tooltip("rate:Q", format=",.4~r", title="ops/s")
    behind = [*_phase_layers(phases), *_fault_layers(faults)]
    return _time_spec(chart.encode(y=y), data, behind, value)


def response_chart(
    data: pl.DataFrame,
    phases: Sequence[PhaseSpan],
    faults: Sequence[FaultSpan] = (),
    title: str = "response time",
) -> Spec:
    """Quantiles of intervals over the run's time, on a logarithmic axis."""
    chart = alt.Chart(_inline(data)).transform_filter("isValid(datum.value) && datum.value > 0")
    chart = chart.transform_calculate(shown=_TIME_LABEL.format("value", ".4~r"))
    y = _time_axis("value", title, data["value"].drop_nulls().to_list())
    value = alt.Tooltip("shown:N", title=title)
    behind = [*_phase_layers(phases), *_fault_layers(faults)]
    return _time_spec(chart.encode(y=y), data, behind, value)


def course_chart(
    data: pl.DataFrame,
    phases: Sequence[PhaseSpan],
    faults: Sequence[FaultSpan],
    title: str,
    number: Literal["~g", "~s"],
) -> Spec:
    """Values as they were recorded, over the run's time, from zero, as numbers of that form."""
    y = alt.Y("value:Q", title=title).scale(zero=True).axis(format=number, tickCount=5)
    value = alt.Tooltip("value:Q", format=f",.4{number}", title=title)
    behind = [*_phase_layers(phases), *_fault_layers(faults)]
    return _time_spec(alt.Chart(_inline(data)).encode(y=y), data, behind, value)


def spread_chart(
    data: pl.DataFrame, phases: Sequence[PhaseSpan], faults: Sequence[FaultSpan]
) -> Spec:
    """Cells of time and response time, the fuller the more operations they hold."""
    chart = alt.Chart(_inline(data)).transform_calculate(
        start_s="datum.start_ns / 1e9",
        end_s="datum.end_ns / 1e9",
        of="'response time'",
        least=_TIME_LABEL.format("low_ns", ".3~r"),
        most=_TIME_LABEL.format("high_ns", ".3~r"),
    )
    x = alt.X("start_s:Q", title="seconds since the run began").scale(nice=False)
    bounds_ns = [*data["low_ns"].to_list(), *data["high_ns"].to_list()]
    y = _time_axis("low_ns", "response time", bounds_ns)
    # A power less than 1 shows the few slow operations beside the many quick ones.
    filled = alt.Opacity("share:Q", legend=None).scale(
        type="pow", exponent=0.3, domain=[0, 1], range=[0.04, 1]
    )
    tooltip = [
        alt.Tooltip("start_s:Q", format=".4~r", title="from second"),
        alt.Tooltip("least:N", title="from"), alt.Tooltip("most:N", title="to"),
        alt.Tooltip("count:Q", format=",", title="operations"),
        alt.Tooltip("share:Q", format=".3~%", title="of this moment's"),
    ]  # fmt: skip
    cells = chart.mark_rect().encode(
        x=x.axis(format="~r", grid=False, tickCount=8),
        x2="end_s:Q",
        y=y,
        y2="high_ns:Q",
        color=alt.Color("of:N", legend=None),
        opacity=filled,
        tooltip=tooltip,
    )
    layers = alt.layer(cells, *_phase_layers(phases)[1:], *_fault_layers(faults))
    return _finished(layers.properties(width=_WIDE_WIDTH, height=_WIDE_HEIGHT))


def _time_spec(
    chart: alt.Chart, data: pl.DataFrame, behind: Sequence[alt.Chart], value: alt.Tooltip
) -> Spec:
    """Lines over the run's time, other layers behind them."""
    style = _SeriesStyle.of(data, "series", _line_legend(offset=_ABOVE_PHASES))
    x = alt.X("end_s:Q", title="seconds since the run began").scale(nice=False)
    x = x.axis(format="~r", grid=False, tickCount=8)
    when = alt.Tooltip("end_s:Q", format=".4~r", title="at second")
    chart = chart.transform_calculate(end_s="datum.end_ns / 1e9").encode(x=x, color=style.color)
    lines = chart.mark_line().encode(strokeDash=style.dash)
    points = _hover_points(chart, [alt.Tooltip("series:N"), when, value])
    layers = alt.layer(*behind, lines, points)
    spec = _finished(layers.properties(width=_WIDE_WIDTH, height=_WIDE_HEIGHT))
    return {**spec, **style.meta()}


def _time_axis(field: str, title: str | None, times_ns: Sequence[float]) -> alt.Y:
    """A logarithmic axis of nanoseconds, labelled in the unit that suits each tick."""
    y = alt.Y(f"{field}:Q", title=title).scale(type="log", nice=False, padding=8)
    return y.axis(labelExpr=_TIME_LABEL.format("value", "~r"), values=log_ticks(times_ns))


def _hover_points(chart: alt.Chart, tooltip: list[alt.Tooltip]) -> alt.Chart:
    """Points that show themselves, with their numbers, under the pointer.

    Not Vega-Lite's `nearest`: it loses the texts of a tooltip.
    """
    pointed = alt.selection_point(name="pointed", on="pointerover", clear="pointerout", empty=False)
    shown = alt.condition(pointed, alt.value(1), alt.value(0))
    points: alt.Chart = chart.mark_point(filled=True, size=110)
    points = points.encode(opacity=shown, tooltip=tooltip)
    return points.add_params(pointed)


def _phase_layers(phases: Sequence[PhaseSpan]) -> list[alt.Chart]:
    """A band for each phase, and its name where there is room, behind everything else."""
    if not phases:
        return []
    spans = [
        {"phase": p.name.replace("_", "-"), "from_s": p.start_ns / 1e9, "to_s": p.end_ns / 1e9}
        for p in phases
    ]
    least_ns = _LEAST_NAMED * (phases[-1].end_ns - phases[0].start_ns)
    wide = [p.end_ns - p.start_ns >= least_ns for p in phases]
    named = [span for span, fits in zip(spans, wide, strict=True) if fits]
    counted = alt.condition("datum.phase == 'measure'", alt.value(1), alt.value(0.4))
    bands = alt.Chart(alt.InlineData(values=spans)).encode(x="from_s:Q")
    bands = bands.mark_rect().encode(x2="to_s:Q", opacity=counted)
    names = alt.Chart(alt.InlineData(values=named)).encode(x="from_s:Q", text="phase:N")
    names = names.mark_text(align="left", baseline="bottom", dy=-5)
    return [bands, names.encode(y=alt.value(0))]


def _fault_layers(faults: Sequence[FaultSpan]) -> list[alt.Chart]:
    """A line where each fault began and where it was over, the first one with its words."""
    if not faults:
        return []
    begun = [{"fault": f"{each.do} {each.node}", "at_s": each.begun_ns / 1e9} for each in faults]
    ends_ns = (each.ended_ns for each in faults if each.ended_ns is not None)
    edges = [{"at_s": ns / 1e9} for ns in (*(each.begun_ns for each in faults), *ends_ns)]
    lines = alt.Chart(alt.InlineData(values=edges)).encode(x="at_s:Q")
    lines = lines.mark_rule(strokeDash=[3, 3], strokeWidth=1)
    names = alt.Chart(alt.InlineData(values=begun)).encode(x="at_s:Q", text="fault:N")
    names = names.mark_text(align="left", baseline="bottom", dx=4, dy=-4)
    return [lines, names.encode(y=alt.value(_WIDE_HEIGHT))]


@dataclass(frozen=True)
class _SeriesStyle:
    """Colour, shape and dash by which series are told apart, in a fixed order."""

    color: alt.Color
    shape: alt.Shape
    dash: alt.StrokeDash
    field: str
    #: Of each series the place of its colour, shape and dash.
    places: Mapping[str, int]

    @classmethod
    def of(cls, data: pl.DataFrame, field: str, legend: alt.Legend | None) -> Self:
        """Styles for the series that a column names; a single one needs no legend."""
        found = data[field].unique(maintain_order=True).to_list()
        domain = _colour_places(found)
        places = {name: place for place, name in enumerate(domain) if name in found}
        if legend is not None and len(places) < len(domain):
            legend["values"] = list(places)
        legend = legend if len(places) > 1 else None
        shapes, dashes = _in_turn(_SHAPES, len(domain)), _in_turn(_DASHES, len(domain))
        return cls(
            color=alt.Color(f"{field}:N", legend=legend).scale(domain=domain),
            shape=alt.Shape(f"{field}:N", legend=legend).scale(domain=domain, range=shapes),
            dash=alt.StrokeDash(f"{field}:N", legend=legend).scale(domain=domain, range=dashes),
            field=field,
            places=places,
        )

    def meta(self) -> Spec:
        """What a page needs to switch series off and on; nothing where there is only one."""
        if len(self.places) < 2:
            return {}
        at = list(self.places.values())
        dashes = _in_turn(_DASHES, max(at) + 1)
        series = {
            "field": self.field, "names": list(self.places), "places": at,
            "dashes": [dashes[place] for place in at],
        }  # fmt: skip
        return {"usermeta": {"series": series}}


def _colour_places(names: Sequence[str]) -> list[str]:
    """Series in the order of colours, a published one where the colour of ours comes round again.

    Blanks stand where no series has a place.
    """
    theirs = {name: f"{name}{PUBLISHED}" for name in names if f"{name}{PUBLISHED}" in names}
    own = [name for name in names if name not in theirs.values()]
    beside = [theirs.get(name) for name in own]
    while beside and beside[-1] is None:
        beside.pop()
    free = -len(own) % len(_SHAPES) if beside else 0
    places = [*own, *[None] * free, *beside]
    return [" " * (at + 1) if name is None else name for at, name in enumerate(places)]


def _in_turn(looks: Sequence[_Look], count: int) -> list[_Look]:
    """A shape or dash for each series: when colours come round, they have others with them."""
    return [looks[(i + i // len(looks)) % len(looks)] for i in range(count)]


def _line_legend(offset: float = 14) -> alt.Legend:
    """A legend that shows lines as they are dashed."""
    return alt.Legend(title=None, symbolType="stroke", symbolSize=320, offset=offset)


def log_ticks(values: Sequence[float | None]) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, and steps between them when those are few."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 30 else (1, 3) if high / low < 1e3 else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if low * 0.7 <= tick <= high * 1.4]


def _panels(
    layers: alt.LayerChart | alt.FacetChart, data: pl.DataFrame, field: str, style: _SeriesStyle
) -> Spec:
    """Small panels in the order in which they first appear, on common axes."""
    order = data[field].unique(maintain_order=True).to_list()
    facet = alt.Facet(f"{field}:N", sort=order, header=alt.Header(title=None))
    layers = layers.properties(width=_PANEL_WIDTH, height=_PANEL_HEIGHT)
    panels = layers.facet(facet=facet, columns=min(_PANEL_COLUMNS, len(order)), data=_inline(data))
    return {**_finished(panels), **style.meta()}


def _inline(data: pl.DataFrame) -> dict[str, Any]:
    """The rows as they are: Altair would hold each one of its own values against a schema."""
    return {"values": data.to_dicts()}


def _finished(chart: alt.TopLevelMixin) -> Spec:
    spec: Spec = chart.to_dict()
    spec.pop("config", None)
    return spec


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours by their part in a figure, as CSS colours."""

    background: str
    ink: str
    muted: str
    rule: str
    band: str
    series: tuple[str, ...]
    font: str = _SANS


LIGHT = Theme(
    background="#ffffff", ink="#1d2126", muted="#59616b", rule="#e3e6ea", band="#f1f3f6",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
)  # fmt: skip
#: A page's own colours, which change with light, dark and paper.
PAGE = Theme(
    background="transparent", ink="var(--ink)", muted="var(--muted)", rule="var(--rule)",
    band="var(--band)", series=tuple(f"var(--series-{n})" for n in range(1, 5)),
)  # fmt: skip


def config(theme: Theme) -> dict[str, Any]:
    """Vega-Lite's configuration for a theme."""
    text = {"font": theme.font, "fontSize": 11}
    return {
        "background": theme.background,
        "font": theme.font,
        "aria": False,
        "padding": 4,
        "view": {"stroke": None},
        "range": {"category": list(theme.series)},
        "axis": {
            "domainColor": theme.rule, "tickColor": theme.rule, "gridColor": theme.rule,
            "labelColor": theme.muted, "titleColor": theme.muted, "labelFontSize": 11,
            "titleFontSize": 11, "titleFontWeight": "normal", "titlePadding": 8,
            "tickSize": 4, "labelPadding": 4,
        },
        "axisY": {"domain": False, "ticks": False},
        "header": {
            "labelColor": theme.ink, "labelFontSize": 13, "labelFontWeight": 600,
            "labelAnchor": "start", "labelPadding": 8,
        },
        "legend": {
            "orient": "top", "labelColor": theme.ink, "labelFontSize": 12, "symbolSize": 60,
            "symbolStrokeWidth": 2, "columnPadding": 18, "offset": 14,
        },
        "facet": {"spacing": 26},
        "line": {"strokeWidth": 1.8, "strokeJoin": "round"},
        "rule": {"strokeWidth": 1.8, "color": theme.muted},
        "text": {**text, "color": theme.muted},
        "rect": {"color": theme.band},
    }  # fmt: skip
