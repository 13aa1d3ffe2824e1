"""Vega-Lite specifications of charts.

Series differ by shape and dash as well as by colour. Marks show their numbers under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

import altair as alt
import polars as pl

from kvmark.analysis.summary.faults import FaultSpan, Segment
from kvmark.report.model.page import Spec

#: The suffix of the names of published series.
PUBLISHED: Final = ", published"
#: The series of a scaling chart.
SCALING_SERIES: Final = ("measured", "law", "peak")
Quantity = Literal["number", "time"]
"""Times are nanoseconds."""
_Look = TypeVar("_Look")
_Axis = TypeVar("_Axis", alt.X, alt.Y)

# Vega's expression for a time with a suitable unit.
_TIME_LABEL = (
    "datum.{0} >= 1e9 ? format(datum.{0} / 1e9, '{1}') + ' s' : "
    "datum.{0} >= 1e6 ? format(datum.{0} / 1e6, '{1}') + ' ms' : "
    "datum.{0} >= 1e3 ? format(datum.{0} / 1e3, '{1}') + ' µs' : format(datum.{0}, '{1}') + ' ns'"
)
_NUMBER_LABEL = "datum.value < 1 ? format(datum.value, '~r') : format(datum.value, '~s')"
_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_COLUMNS = 230, 150, 3
_WIDE_WIDTH, _WIDE_HEIGHT = 760, 220
_ROW_HEIGHT = 18
_LEAST_TICKS = 3
# The factor below which values of a logarithmic axis count as constant.
_ROOM = 1.05
# The least share of the axis at which a phase has room for its name.
_LEAST_NAMED = 0.05
# Room for phase names between a chart and its legend.
_ABOVE_PHASES = 30
# More than four names in a row are wider than the panels below.
_POINTS_LEGEND: dict[str, Any] = {"symbolStrokeWidth": 0, "columns": 4}
_LINES_LEGEND: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 320, "offset": 14}
# One per colour of a figure.
_SHAPES = ("circle", "diamond", "square", "triangle-up")
_DASHES = ([1, 0], [5, 3], [2, 2], [8, 2, 2, 2])
# 1 / (1 - quantile) of the usual percentiles.
_PERCENTILES = {
    2: "50", 10: "90", 100: "99", 1_000: "99.9", 10_000: "99.99", 100_000: "99.999",
}  # fmt: skip


def level_chart(
    data: pl.DataFrame,
    title: str,
    across: str,
    panel: str = "panel",
    quantity: Quantity = "number",
) -> Spec:
    """A value against a column, one panel per value of another, on logarithmic axes.

    Levels that are words are placed side by side.
    """
    style = _SeriesStyle(data, "series", **_POINTS_LEGEND)
    x = _level_axis(data, across)
    values = [value for name in ("value", "low", "high") for value in data[name].to_list()]
    label = _TIME_LABEL if quantity == "time" else "format(datum.{0}, '{1}')"
    axis = label.format("value", "~r") if quantity == "time" else _NUMBER_LABEL
    y = _logarithmic(alt.Y("value:Q", title=title), values, padding=10, labelExpr=axis)
    texts = {
        f"{name}_text": f"isValid(datum.{name}) ? {label.format(name, ',.4~r')} : ''"
        for name in ("value", "low", "high")
    }
    base = alt.Chart().transform_calculate(**texts).encode(x=x, y=y, color=style.color)
    place = alt.Tooltip(f"{across}:Q", format=",")
    tooltip = [
        alt.Tooltip(f"{panel}:N"), alt.Tooltip("series:N"),
        place if data[across].dtype.is_numeric() else alt.Tooltip(f"{across}:N"),
        alt.Tooltip("value_text:N", title=title), alt.Tooltip("low_text:N", title="from"),
        alt.Tooltip("high_text:N", title="to"), alt.Tooltip("runs:Q"),
    ]  # fmt: skip
    lines = base.mark_line().encode(strokeDash=style.dash)
    bars = base.transform_filter("isValid(datum.low) && datum.low > 0")
    bars = bars.mark_rule().encode(y="low:Q", y2="high:Q")
    points = base.mark_point(filled=True, size=52, opacity=1)
    points = points.encode(shape=style.shape, tooltip=tooltip)
    # A line between words has no meaning.
    joined = [lines] if data[across].dtype.is_numeric() else []
    known = [bars] if data["low"].is_not_null().any() else []
    return _finished(_panels(alt.layer(*joined, *known, points), data, panel), style)


def target_chart(data: pl.DataFrame) -> Spec:
    """Response time against throughput, one panel per workload, both axes logarithmic."""
    style = _SeriesStyle(data, "series", **_POINTS_LEGEND)
    x = alt.X("throughput:Q", title="operations per second")
    x = _logarithmic(x, data["throughput"].to_list(), format="~s", labelOverlap=True)
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
    return _finished(_panels(alt.layer(lines, points), data, "workload"), style)


def _level_axis(data: pl.DataFrame, across: str) -> alt.X:
    """The axis of levels: logarithmic for numbers, in order of appearance for words."""
    levels = data[across].unique(maintain_order=True).to_list()
    if not data[across].dtype.is_numeric():
        return alt.X(f"{across}:N", title=across, sort=levels).axis(labelAngle=0)
    levels.sort()
    x = alt.X(f"{across}:Q", title=across).scale(type="log", nice=False, padding=14)
    ticks = levels if len(levels) <= 6 else log_ticks(levels)
    return x.axis(format="~s", grid=False, labelOverlap=True, values=ticks)


def quantile_chart(data: pl.DataFrame) -> Spec:
    """Times against quantiles, the tail stretched, one panel per workload or operation."""
    style = _SeriesStyle(data, "time", **_LINES_LEGEND)
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
    layers = alt.layer(lines, _hover_points(chart, tooltip))
    return _finished(_panels(layers, data, "panel"), style)


def rate_chart(data: pl.DataFrame, behind: Sequence[alt.Chart]) -> Spec:
    """Counts of intervals as rates, over the run's time."""
    chart = alt.Chart(_inline(data)).transform_calculate(
        rate="datum.value * 1e9 / (datum.end_ns - datum.start_ns)"
    )
    y = from_zero(alt.Y("rate:Q", title="operations per second"), data["value"].to_list())
    value = alt.Tooltip("rate:Q", format=",.4~r", title="ops/s")
    return _time_spec(chart.encode(y=y), data, behind, value)


def response_chart(data: pl.DataFrame, behind: Sequence[alt.Chart], title: str) -> Spec:
    """Quantiles of intervals over the run's time, on a logarithmic axis."""
    chart = alt.Chart(_inline(data)).transform_filter("isValid(datum.value) && datum.value > 0")
    chart = chart.transform_calculate(shown=_TIME_LABEL.format("value", ".4~r"))
    y = _time_axis("value", title, data["value"].drop_nulls().to_list())
    value = alt.Tooltip("shown:N", title=title)
    return _time_spec(chart.encode(y=y), data, behind, value)


def course_chart(data: pl.DataFrame, behind: Sequence[alt.Chart], title: str) -> Spec:
    """Recorded values over the run's time, from zero."""
    y = from_zero(alt.Y("value:Q", title=title), data["value"].to_list())
    value = alt.Tooltip("value:Q", format=",.4~r", title=title)
    return _time_spec(alt.Chart(_inline(data)).encode(y=y), data, behind, value)


def spread_chart(data: pl.DataFrame, before: Sequence[alt.Chart]) -> Spec:
    """Cells of time and response time; opacity shows the share of operations."""
    chart = alt.Chart(_inline(data)).transform_calculate(
        start_s="datum.start_ns / 1e9",
        end_s="datum.end_ns / 1e9",
        of="'response time'",
        least=_TIME_LABEL.format("low_ns", ".3~r"),
        most=_TIME_LABEL.format("high_ns", ".3~r"),
    )
    x = _run_axis("start_s")
    bounds_ns = [*data["low_ns"].to_list(), *data["high_ns"].to_list()]
    y = _time_axis("low_ns", "response time", bounds_ns)
    # An exponent below 1 keeps the few slow operations visible.
    filled = alt.Opacity("share:Q", legend=None).scale(
        type="pow", exponent=0.3, domain=[0, 1], range=[0.04, 1]
    )
    tooltip = [
        alt.Tooltip("start_s:Q", format=".4~r", title="from second"),
        alt.Tooltip("least:N", title="from"), alt.Tooltip("most:N", title="to"),
        alt.Tooltip("count:Q", format=",", title="operations"),
        alt.Tooltip("share:Q", format=".3~%", title="of this moment's"),
    ]  # fmt: skip
    color = alt.Color("of:N", legend=None)
    cells = chart.mark_rect().encode(x=x, x2="end_s:Q", y=y, y2="high_ns:Q", tooltip=tooltip)
    layers = alt.layer(cells.encode(color=color, opacity=filled), *before)
    return _finished(layers.properties(width=_WIDE_WIDTH, height=_WIDE_HEIGHT))


def scaling_chart(data: pl.DataFrame, over: str) -> Spec:
    """Throughput against levels, with the fitted law and its peak, one panel per law."""
    measured, law, _ = SCALING_SERIES
    levels = data.filter(pl.col("series") == measured)["level"].unique().sort().to_list()
    ticks = levels if len(levels) <= 8 else log_ticks(levels)
    x = alt.X("level:Q", title=over).scale(type="log", nice=False, padding=14)
    x = x.axis(format="~s", grid=False, labelOverlap=True, values=ticks)
    y = alt.Y("throughput:Q", title="operations per second")
    y = from_zero(y, data["throughput"].to_list())
    series = list(SCALING_SERIES)
    shape = alt.Shape("series:N", legend=None)
    shape = shape.scale(domain=series, range=["circle", "circle", "diamond"])
    color = alt.Color("series:N", legend=None).scale(domain=series)
    base = alt.Chart().encode(x=x, y=y, color=color)
    line = base.transform_filter(f"datum.series == '{law}'").mark_line()
    bars = base.transform_filter("isValid(datum.low)").mark_rule().encode(y="low:Q", y2="high:Q")
    peak_bars = base.transform_filter("isValid(datum.from) && isValid(datum.to)").mark_rule()
    peak_bars = peak_bars.encode(x="from:Q", x2="to:Q")
    points = base.transform_filter(f"datum.series != '{law}'")
    points = points.mark_point(filled=True, size=52, opacity=1)
    tooltip = [
        alt.Tooltip("series:N", title="kind"),
        alt.Tooltip("level:Q", format=",.4~r", title=over),
        alt.Tooltip("throughput:Q", format=",.4~r", title="ops/s"),
    ]
    layers = alt.layer(line, bars, peak_bars, points.encode(shape=shape, tooltip=tooltip))
    if data["case"].n_unique() == 1:
        return _finished(layers.properties(width=640, height=300, data=_inline(data)))
    panels = _panels(layers, data, "case", labelLimit=_PANEL_WIDTH)
    return _finished(panels.resolve_scale(y="independent"))


def bar_chart(data: pl.DataFrame, title: str) -> Spec:
    """A bar for each program, one panel per case, from zero; the first program stands out."""
    order = data["program"].unique(maintain_order=True).to_list()
    data = data.with_columns((pl.col("program") != order[0]).alias("other"))
    bars = alt.Chart().encode(
        y=alt.Y("program:N", title=None, sort=order),
        x=alt.X("value:Q", title=title).axis(format="~s", tickCount=4),
        color=alt.Color("other:N", legend=None),
        tooltip=[alt.Tooltip("program:N"), alt.Tooltip("value:Q", format=",.4~r")],
    )
    panels = _panels(alt.layer(bars.mark_bar()), data, "case", height=alt.Step(_ROW_HEIGHT))
    return _finished(panels.resolve_scale(y="independent"))


def pair_chart(data: pl.DataFrame, title: str) -> Spec:
    """The values of each case on one line, logarithmic."""
    style = _SeriesStyle(data, "series", **_POINTS_LEGEND)
    order = data["case"].unique(maintain_order=True).to_list()
    values = [value for name in ("value", "low", "high") for value in data[name].to_list()]
    x = _logarithmic(alt.X("value:Q", title=title), values, padding=10, labelExpr=_NUMBER_LABEL)
    y = alt.Y("case:N", title=None, sort=order).axis(grid=True, labelLimit=_PANEL_WIDTH * 2)
    base = alt.Chart(_inline(data)).encode(x=x, y=y, color=style.color)
    bars = base.transform_filter("isValid(datum.low) && datum.low > 0")
    bars = bars.mark_rule().encode(x="low:Q", x2="high:Q")
    tooltip = [alt.Tooltip("case:N"), alt.Tooltip("series:N"), alt.Tooltip("value:Q")]
    points = base.mark_point(filled=True, size=52, opacity=1)
    points = points.encode(shape=style.shape, tooltip=tooltip)
    layers = alt.layer(bars, points).properties(width=420, height=_ROW_HEIGHT * len(order))
    return _finished(layers, style)


def line_chart(
    data: pl.DataFrame, x: alt.X, y: alt.Y, interpolate: Literal["linear", "step-after"]
) -> Spec:
    """One line without a legend."""
    line = alt.Chart(_inline(data)).mark_line(interpolate=interpolate).encode(x=x, y=y)
    return _finished(line.properties(width=640, height=220))


def _time_spec(
    chart: alt.Chart, data: pl.DataFrame, behind: Sequence[alt.Chart], value: alt.Tooltip
) -> Spec:
    """Lines over the run's time."""
    style = _SeriesStyle(data, "series", **{**_LINES_LEGEND, "offset": _ABOVE_PHASES})
    when = alt.Tooltip("end_s:Q", format=".4~r", title="at second")
    chart = chart.transform_calculate(end_s="datum.end_ns / 1e9")
    chart = chart.encode(x=_run_axis("end_s"), color=style.color)
    lines = chart.mark_line().encode(strokeDash=style.dash)
    points = _hover_points(chart, [alt.Tooltip("series:N"), when, value])
    layers = alt.layer(*behind, lines, points)
    return _finished(layers.properties(width=_WIDE_WIDTH, height=_WIDE_HEIGHT), style)


def _run_axis(field: str) -> alt.X:
    x = alt.X(f"{field}:Q", title="seconds since the run began").scale(nice=False)
    return x.axis(format="~r", grid=False, tickCount=8)


def _time_axis(field: str, title: str | None, times_ns: Sequence[float]) -> alt.Y:
    """A logarithmic axis of nanoseconds; each tick has a suitable unit."""
    y = alt.Y(f"{field}:Q", title=title)
    return _logarithmic(y, times_ns, padding=8, labelExpr=_TIME_LABEL.format("value", "~r"))


def from_zero(place: alt.Y, values: Iterable[float | None]) -> alt.Y:
    """A linear axis from zero; to one where no value is above zero."""
    y = place.scale(zero=True) if any(values) else place.scale(domain=(0, 1))
    return y.axis(labelExpr=_NUMBER_LABEL, tickCount=5)


def _logarithmic(
    place: _Axis, values: Sequence[float | None], padding: int = 0, **axis: Any
) -> _Axis:
    """A logarithmic axis of these values, with ticks within it."""
    ends, ticks = _log_ends(values), log_ticks(values)
    place = place.scale(type="log", nice=False, padding=padding, domain=ends or alt.Undefined)
    return place.axis(values=ticks, **axis)


def _hover_points(chart: alt.Chart, tooltip: list[alt.Tooltip]) -> alt.Chart:
    """Points that appear with their numbers under the pointer.

    Vega-Lite's `nearest` loses the texts of a tooltip.
    """
    pointed = alt.selection_point(name="pointed", on="pointerover", clear="pointerout", empty=False)
    shown = alt.condition(pointed, alt.value(1), alt.value(0))
    points: alt.Chart = chart.mark_point(filled=True, size=110)
    points = points.encode(opacity=shown, tooltip=tooltip)
    return points.add_params(pointed)


def background(phases: Sequence[Segment], faults: Sequence[FaultSpan]) -> list[alt.Chart]:
    """The bands of phases, their names where there is room, and the starts and ends of faults."""
    layers: list[alt.Chart] = []
    if phases:
        spans = [
            {"phase": p.name.replace("_", "-"), "from_s": p.start_ns / 1e9, "to_s": p.end_ns / 1e9}
            for p in phases
        ]
        least_ns = _LEAST_NAMED * (phases[-1].end_ns - phases[0].start_ns)
        named = [
            span for span, p in zip(spans, phases, strict=True) if p.end_ns - p.start_ns >= least_ns
        ]
        counted = alt.condition("datum.phase == 'measure'", alt.value(1), alt.value(0.4))
        bands = alt.Chart(alt.InlineData(values=spans)).encode(x="from_s:Q")
        names = alt.Chart(alt.InlineData(values=named)).encode(x="from_s:Q", text="phase:N")
        names = names.mark_text(align="left", baseline="bottom", dy=-5)
        layers += [
            bands.mark_rect().encode(x2="to_s:Q", opacity=counted),
            names.encode(y=alt.value(0)),
        ]
    if faults:
        begun = [{"fault": f"{one.do} {one.node}", "at_s": one.begun_ns / 1e9} for one in faults]
        ends_ns = (one.ended_ns for one in faults if one.ended_ns is not None)
        edges = [{"at_s": ns / 1e9} for ns in (*(one.begun_ns for one in faults), *ends_ns)]
        lines = alt.Chart(alt.InlineData(values=edges)).encode(x="at_s:Q")
        names = alt.Chart(alt.InlineData(values=begun)).encode(x="at_s:Q", text="fault:N")
        names = names.mark_text(align="left", baseline="bottom", dx=4, dy=-4)
        layers += [
            lines.mark_rule(strokeDash=[3, 3], strokeWidth=1),
            names.encode(y=alt.value(_WIDE_HEIGHT)),
        ]
    return layers


class _SeriesStyle:
    """Colour, shape and dash of the series in a column, in a fixed order."""

    def __init__(self, data: pl.DataFrame, field: str, **look: Any) -> None:
        found = data[field].unique(maintain_order=True).to_list()
        domain = _colour_places(found)
        self.field = field
        #: The index of colour, shape and dash by series.
        self.places = {name: place for place, name in enumerate(domain) if name in found}
        if len(self.places) < len(domain):
            look["values"] = list(self.places)
        # A single series has no legend.
        legend = alt.Legend(title=None, **look) if len(self.places) > 1 else None
        shapes, dashes = _cycled(_SHAPES, len(domain)), _cycled(_DASHES, len(domain))
        self.color = alt.Color(f"{field}:N", legend=legend).scale(domain=domain)
        self.shape = alt.Shape(f"{field}:N", legend=legend).scale(domain=domain, range=shapes)
        self.dash = alt.StrokeDash(f"{field}:N", legend=legend).scale(domain=domain, range=dashes)


def _colour_places(names: Sequence[str]) -> list[str]:
    """Series in the order of colours; a published one has the colour of its measured one.

    Blank names fill places without a series.
    """
    pairs = {name: f"{name}{PUBLISHED}" for name in names if f"{name}{PUBLISHED}" in names}
    first = [name for name in names if name not in pairs.values()]
    published = [pairs.get(name) for name in first]
    while published and published[-1] is None:
        published.pop()
    free = -len(first) % len(_SHAPES) if published else 0
    places = [*first, *[None] * free, *published]
    return [" " * (at + 1) if name is None else name for at, name in enumerate(places)]


def _cycled(looks: Sequence[_Look], count: int) -> list[_Look]:
    """A shape or dash for each series; a repeated colour has another one."""
    return [looks[(i + i // len(looks)) % len(looks)] for i in range(count)]


def log_ticks(values: Iterable[float | None]) -> list[float]:
    """Three or more ticks of a logarithmic axis: powers of ten, over a short range equal steps."""
    ends = _log_ends(values)
    if not ends:
        return []
    low, high = ends
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    forms = ((1,), (1, 3), (1, 2, 5))[(high < low * 1e3) + (high < low * 30) :]
    ticks = [[step * 10.0**decade for decade in decades for step in steps] for steps in forms]
    for step in (5.0, 2.0, 1.0, 0.5, 0.2):
        size = step * 10.0 ** math.floor(math.log10(high - low))
        numbers = range(math.floor(low / size), math.ceil(high / size) + 1)
        ticks.append([float(f"{number * size:.12g}") for number in numbers])
    inside = ([tick for tick in each if low <= tick <= high] for each in ticks)
    return next(each for each in inside if len(each) >= _LEAST_TICKS)


def _log_ends(values: Iterable[float | None]) -> list[float]:
    """The ends of a logarithmic axis, with room around a constant; empty without values."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    return [low / _ROOM, high * _ROOM] if high < low * _ROOM else [low, high]


def _panels(
    layers: alt.LayerChart | alt.FacetChart,
    data: pl.DataFrame,
    field: str,
    height: int | alt.Step = _PANEL_HEIGHT,
    **header: Any,
) -> alt.FacetChart:
    """Small panels in order of appearance, on common axes."""
    order = data[field].unique(maintain_order=True).to_list()
    facet = alt.Facet(f"{field}:N", sort=order, header=alt.Header(title=None, **header))
    layers = layers.properties(width=_PANEL_WIDTH, height=height)
    return layers.facet(facet=facet, columns=min(_PANEL_COLUMNS, len(order)), data=_inline(data))


def _inline(data: pl.DataFrame) -> dict[str, Any]:
    """The rows as plain values, which Altair does not validate one by one."""
    return {"values": data.to_dicts()}


def _finished(chart: alt.TopLevelMixin, style: _SeriesStyle | None = None) -> Spec:
    """The specification, with the metadata for the page's switches of several series."""
    spec: Spec = chart.to_dict()
    spec.pop("config", None)
    if style is not None and len(style.places) > 1:
        at = list(style.places.values())
        dashes = _cycled(_DASHES, max(at) + 1)
        spec["usermeta"] = {
            "series": {
                "field": style.field, "names": list(style.places), "places": at,
                "dashes": [dashes[place] for place in at],
            }
        }  # fmt: skip
    return spec
