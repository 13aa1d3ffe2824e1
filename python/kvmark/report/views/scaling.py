"""Scaling laws as sentences and tables, and as a page with their figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt
import polars as pl
from rich.text import Text

from kvmark.analysis import Level, Reason, Verdict
from kvmark.analysis.models.scaling import ScalingLaw, ScalingPoint
from kvmark.foreign_text import printable
from kvmark.report.charts.vega import Spec, log_ticks
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, to_text, wrap
from kvmark.report.model.answers import Fact, Provenance
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views import doubts

_MEASURED: Final = "measured"
_LINE: Final = "law"
_PEAK: Final = "peak"
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
# With more laws than this their points are left to the figure and to the document.
_MOST_TABLES = 3
# With each doing so much of what each of the fewest does, throughput keeps pace with them.
_PROPORTIONAL = 0.9
_LAW = (
    "X(N) = λ N ÷ (1 + σ (N - 1) + κ N (N - 1)), the Universal Scalability Law; 95 % intervals by"
    " profile likelihood. Scatter is that of the figures around the law."
)
_PROPORTION = (
    "In proportion: what each of the {over} does, as a share of what each does at the smallest"
    " level."
)


def scaling_page(answer: ScalingAnswer, command: tuple[str, ...] = ()) -> Page:
    """The laws, their figure, and what speaks against each."""
    laws = answer.laws
    parts = [
        Section(
            "laws",
            "Laws",
            facts=tuple(Fact(law.title, scaling_sentence(law)) for law in laws),
            grids=_scaling_grids(answer),
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
            rows.append((law.title, _LINE, level, throughput, None, None, None, None))
        for point in law.points:
            one = point.throughput
            bounds = (one.low, one.high, None, None)
            rows.append((law.title, _MEASURED, point.level, one.value, *bounds))
        fit = law.fit
        if law.claim in ("peak", "predicted peak") and fit and fit.peak and fit.peak_throughput:
            place = (fit.peak.value, fit.peak_throughput.value)
            rows.append((law.title, _PEAK, *place, None, None, fit.peak.low, fit.peak.high))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _chart(data: pl.DataFrame, over: str) -> Spec:
    cases = data["case"].unique(maintain_order=True).to_list()
    measured = data.filter(pl.col("series") == _MEASURED)["level"].unique().sort().to_list()
    ticks = measured if len(measured) <= 8 else log_ticks(measured)
    x = alt.X("level:Q", title=over).scale(type="log", nice=False, padding=14)
    x = x.axis(format="~s", grid=False, labelOverlap=True, values=ticks)
    y = alt.Y("throughput:Q", title="operations per second").scale(zero=True)
    y = y.axis(format="~s", tickCount=5)
    series = [_MEASURED, _LINE, _PEAK]
    shape = alt.Shape("series:N", legend=None)
    shape = shape.scale(domain=series, range=["circle", "circle", "diamond"])
    base = alt.Chart().encode(x=x, y=y)
    base = base.encode(color=alt.Color("series:N", legend=None).scale(domain=series))
    line = base.transform_filter(f"datum.series == '{_LINE}'").mark_line()
    spread = base.transform_filter("isValid(datum.low)").mark_rule()
    spread = spread.encode(y=alt.Y("low:Q"), y2="high:Q")
    place = base.transform_filter("isValid(datum.from) && isValid(datum.to)").mark_rule()
    place = place.encode(x=alt.X("from:Q"), x2="to:Q")
    points = base.transform_filter(f"datum.series != '{_LINE}'")
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


@dataclass(frozen=True, slots=True)
class ScalingAnswer:
    """The laws that were asked for."""

    title: str
    laws: tuple[ScalingLaw, ...]


def scaling_text(answer: ScalingAnswer, width: int) -> Text:
    """Tables and sentences for a terminal."""
    lines: list[Text] = []
    for grid in _scaling_grids(answer):
        lines += [to_text(grid, width), Text()]
    for law in answer.laws:
        title = f"{law.title}: " if len(answer.laws) > 1 else ""
        lines += _wrapped(f"{title}{scaling_sentence(law)}", width, "")
        for caveat in law.caveats:
            lines += _wrapped(caveat.sentence, width, "dim", "  ")
    return Text("\n").join(lines)


def _scaling_grids(answer: ScalingAnswer) -> tuple[Grid, ...]:
    """The laws, where there is one, and the levels of each unless there are too many to read."""
    fitted = any(law.fit is not None for law in answer.laws)
    few = len(answer.laws) <= _MOST_TABLES or not fitted
    levels = tuple(_points_grid(law) for law in answer.laws) if few else ()
    return (*levels, *((_laws_grid(answer),) if fitted else ()))


def scaling_sentence(law: ScalingLaw) -> str:
    """What a law says, in plain words."""
    fit = law.fit
    if fit is None:
        return f"No law is fitted over {_words(law.over)}."
    if fit.peak is None or fit.peak_throughput is None or law.claim == "law":
        best = max(law.points, key=lambda point: point.throughput.value)
        form = "rises in proportion" if law.points[-1].efficiency > _PROPORTIONAL else "levels off"
        return (
            f"Throughput {form} as far as was measured; the highest is"
            f" {units.significant(best.throughput.value)} ops/s at {best.level:,.0f}"
            f" {_words(law.over)}."
        )
    peak, high = between(fit.peak), between(fit.peak_throughput)
    verb = "peaks" if law.claim == "peak" else "would peak"
    return f"Throughput {verb} at {peak} {_words(law.over)}, with {high} ops/s."


def between(estimate: units.Bounded) -> str:
    """A value and its interval, both bounds as far as they are known."""
    low = "below" if estimate.low is None else units.significant(estimate.low)
    high = "above" if estimate.high is None else units.significant(estimate.high)
    return f"{units.significant(estimate.value)} ({low} to {high})"


def _laws_grid(answer: ScalingAnswer) -> Grid:
    """One row per law: its parameters and its peak, each with its interval."""
    over = _words(answer.laws[0].over) if answer.laws else ""
    return Grid(
        title=answer.title,
        columns=(
            Column("case", number=False, key=True),
            Column("levels", key=True),
            Column("ops/s", "λ, one alone"),
            Column("95 %", "λ, one alone"),
            Column("σ", "contention"),
            Column("95 %", "contention"),
            Column("κ", "coherency"),
            Column("95 %", "coherency"),
            Column(over, "peak"),
            Column("95 %", "peak"),
            Column("ops/s", "peak"),
            Column("scatter", number=True),
        ),
        rows=tuple(_law_row(law) for law in answer.laws),
        notes=tuple(_notes(answer)),
    )


def _law_row(law: ScalingLaw) -> tuple[Cell, ...]:
    fit = law.fit
    claimed = fit if law.claim in ("peak", "predicted peak") else None
    peak = None if claimed is None else claimed.peak
    throughput = None if claimed is None else claimed.peak_throughput
    return (
        Cell(law.title),
        Cell(units.whole(len(law.points))),
        *_cells(None if fit is None else fit.lam),
        *_cells(None if fit is None else fit.sigma, small=True),
        *_cells(None if fit is None else fit.kappa, small=True),
        *_cells(peak, tone_strong=True),
        Cell(units.ABSENT if throughput is None else units.significant(throughput.value), "strong"),
        Cell(units.ABSENT if fit is None else f"{fit.scatter:.1%}"),
    )


def _cells(
    estimate: units.Bounded | None, *, small: bool = False, tone_strong: bool = False
) -> tuple[Cell, Cell]:
    if estimate is None:
        return (Cell(units.ABSENT), Cell(units.ABSENT))
    low, high = (
        units.ABSENT if bound is None else _written(bound, small=small)
        for bound in (estimate.low, estimate.high)
    )
    value = Cell(_written(estimate.value, small=small), "strong" if tone_strong else "plain")
    return (value, Cell(f"{low} … {high}", "muted"))


def _written(value: float, *, small: bool) -> str:
    """Shares go down to millionths of millionths, which digits after the point don't show."""
    return f"{value:.2g}" if small and 0 < value < 1e-3 else units.significant(value)


def _notes(answer: ScalingAnswer) -> list[str]:
    notes = [_LAW]
    if any(law.claim == "law" for law in answer.laws):
        notes.append(
            f"{units.ABSENT} as a peak: κ may be 0, and then throughput levels off and no more."
        )
    return notes


def _points_grid(law: ScalingLaw) -> Grid:
    """One row per level."""
    return Grid(
        title=law.title,
        columns=(
            Column(_words(law.over), key=True),
            Column("ops/s"),
            Column("runs"),
            Column("in proportion"),
            *([Column("law"), Column("off")] if law.fit is not None else []),
        ),
        rows=tuple(_point_row(point) for point in law.points),
        notes=(_PROPORTION.format(over=_words(law.over)),),
    )


def _point_row(point: ScalingPoint) -> tuple[Cell, ...]:
    off = (
        ()
        if point.law is None
        else (
            Cell(units.significant(point.law), "muted"),
            Cell(f"{point.throughput.value / point.law - 1:+.1%}", "muted"),
        )
    )
    return (
        Cell(f"{point.level:,.0f}"),
        Cell(units.estimate(point.throughput), "strong"),
        Cell(units.whole(len(point.runs) or None)),
        Cell(f"{point.efficiency:.0%}"),
        *off,
    )


def _words(over: str) -> str:
    return over.replace("_", " ")


def _wrapped(sentence: str, width: int, style: str, indent: str = "") -> list[Text]:
    lines = wrap(printable(sentence), width - len(indent))
    return [Text(indent + line, style) for line in lines]
