"""Scaling laws as sentences and tables, and as a page with their figure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import polars as pl
from rich.text import Text

from kvmark.analysis.scaling import ScalingLaw, ScalingPoint
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.report.model import units
from kvmark.report.model.page import Fact, Figure, Page, Provenance, Section
from kvmark.report.model.tables import Cell, Grid, Table, Tone, sentence_lines, stacked
from kvmark.report.model.units import Bounded
from kvmark.report.views import charts
from kvmark.report.views.charts import SCALING_SERIES
from kvmark.report.views.figures import frame
from kvmark.report.views.verdicts import caveats

_NUMBERS: Final = ("level", "throughput", "low", "high", "from", "to")
_SCHEMA: Final = {"case": str, "series": str, **dict.fromkeys(_NUMBERS, float)}
# With more laws, only the figure and the document show their points.
_MOST_TABLES: Final = 3
# The share of linear throughput from which it counts as proportional.
_PROPORTIONAL: Final = 0.9
_LAW: Final = (
    "X(N) = λ N ÷ (1 + σ (N - 1) + κ N (N - 1)), the Universal Scalability Law; 95 % intervals by"
    " profile likelihood. Scatter is that of the figures around the law."
)
_NO_PEAK: Final = (
    f"{units.ABSENT} as a peak: κ may be 0, and then throughput levels off and no more."
)


def scaling_text(title: str, laws: Sequence[ScalingLaw], width: int) -> Text:
    """Tables and sentences for a terminal."""
    lines: list[Text | str] = []
    for law in laws:
        case = f"{law.title}: " if len(laws) > 1 else ""
        lines.append(f"{case}{scaling_sentence(law)}")
        for caveat in law.caveats:
            lines += sentence_lines(caveat.sentence, width, "dim", "  ")
    return stacked(width, *_scaling_grids(title, laws), lines)


def scaling_page(title: str, laws: Sequence[ScalingLaw], command: tuple[str, ...]) -> Page:
    """The laws, their figure, and their caveats."""
    facts = tuple(Fact(law.title, scaling_sentence(law)) for law in laws)
    parts = [Section("laws", "Laws", facts=facts, grids=_scaling_grids(title, laws))]
    if laws:
        parts.append(Section("figure", "Figure", figures=(scaling_figure(laws),)))
    runs = {law.title: [run for point in law.points for run in point.runs] for law in laws}
    documents = {"Runs of each case": runs} if any(runs.values()) else {}
    return Page(
        title=title,
        question="How does throughput change with the number of clients or servers?",
        answer=scaling_sentence(laws[0]) if len(laws) == 1 else f"{len(laws)} laws, each below.",
        caveats=caveats([(law.title, _verdict(law), {}) for law in laws], "cases"),
        parts=tuple(parts),
        sources=(Provenance((), command, documents),),
    )


def _verdict(law: ScalingLaw) -> Verdict:
    """The caveats as notes."""
    return Verdict.of(
        Reason(caveat.code, Level.NOTE, None, caveat.sentence, {}, None, caveat.advice)
        for caveat in law.caveats
    )


def scaling_figure(laws: Sequence[ScalingLaw]) -> Figure:
    """Throughput against the levels, one panel per law."""
    data, over = _frame(laws), _words(laws[0].over)
    line = diamond = ""
    if any(law.fit is not None for law in laws):
        line = " The line is the Universal Scalability Law that fits best."
    if any(_has_peak(law) for law in laws):
        diamond = " A diamond is its peak, with the interval of where it lies."
    caption = "Successful operations per second; the horizontal axis is logarithmic."
    spec = charts.scaling_chart(data, over)
    return Figure("scaling", f"Throughput over {over}", caption + line + diamond, data, spec)


def _has_peak(law: ScalingLaw) -> bool:
    return law.claim in ("peak", "predicted peak")


def _frame(laws: Sequence[ScalingLaw]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = []
    measured, line, peak = SCALING_SERIES
    for law in laws:
        for level, throughput in law.curve:
            rows.append((law.title, line, level, throughput, None, None, None, None))
        for point in law.points:
            one = point.throughput
            bounds = (one.low, one.high, None, None)
            rows.append((law.title, measured, point.level, one.value, *bounds))
        fit = law.fit
        if _has_peak(law) and fit and fit.peak and fit.peak_throughput:
            place = (fit.peak.value, fit.peak_throughput.value)
            rows.append((law.title, peak, *place, None, None, fit.peak.low, fit.peak.high))
    return frame(rows, _SCHEMA)


def scaling_sentence(law: ScalingLaw) -> str:
    """The peak of a law, or the highest throughput."""
    fit, over = law.fit, _words(law.over)
    if fit is None:
        return f"No law is fitted over {over}."
    if fit.peak is None or fit.peak_throughput is None or law.claim == "law":
        best = max(law.points, key=lambda point: point.throughput.value)
        form = "rises in proportion" if law.points[-1].efficiency > _PROPORTIONAL else "levels off"
        return (
            f"Throughput {form} as far as was measured; the highest is"
            f" {units.significant(best.throughput.value)} ops/s at {best.level:,.0f} {over}."
        )
    verb = "peaks" if law.claim == "peak" else "would peak"
    high = between(fit.peak_throughput)
    return f"Throughput {verb} at {between(fit.peak)} {over}, with {high} ops/s."


def between(estimate: Bounded) -> str:
    """A value and its interval, whose ends may be unknown."""
    low = "below" if estimate.low is None else units.significant(estimate.low)
    high = "above" if estimate.high is None else units.significant(estimate.high)
    return f"{units.significant(estimate.value)} ({low} to {high})"


def _scaling_grids(title: str, laws: Sequence[ScalingLaw]) -> tuple[Grid, ...]:
    """The points of each law unless there are many laws, and the parameters of fitted ones."""
    fitted = any(law.fit is not None for law in laws)
    few = len(laws) <= _MOST_TABLES or not fitted
    points = tuple(map(_points_grid, laws)) if few else ()
    return (*points, _laws_grid(title, laws)) if fitted else points


def _laws_grid(title: str, laws: Sequence[ScalingLaw]) -> Grid:
    """The parameters and the peak of each law."""

    def value(name: str, law: ScalingLaw) -> Cell:
        estimate = _parameter(name, law)
        tone: Tone = "strong" if name.startswith("peak") and estimate else "plain"
        return Cell(_number(estimate.value) if estimate else units.ABSENT, tone)

    def interval(name: str, law: ScalingLaw) -> Cell:
        estimate = _parameter(name, law)
        if estimate is None:
            return Cell(units.ABSENT)
        return Cell(f"{_number(estimate.low)} … {_number(estimate.high)}", "muted")

    table = Table(title, laws)
    table.key("case", lambda law: law.title)
    table.key("levels", lambda law: len(law.points), number=True)
    for name, heading, band in (
        ("lam", "ops/s", "λ, one alone"),
        ("sigma", "σ", "contention"),
        ("kappa", "κ", "coherency"),
        ("peak", _words(laws[0].over), "peak"),
    ):
        table.number(heading, partial(value, name), band)
        table.number("95 %", partial(interval, name), band)
    table.number("ops/s", partial(value, "peak_throughput"), "peak")
    table.number("scatter", lambda law: f"{law.fit.scatter:.1%}" if law.fit else units.ABSENT)
    return table.grid((_LAW, _NO_PEAK) if any(law.claim == "law" for law in laws) else (_LAW,))


def _parameter(name: str, law: ScalingLaw) -> Bounded | None:
    """An estimate of the fit; a peak only if the law has one."""
    is_present = _has_peak(law) or not name.startswith("peak")
    return getattr(law.fit, name, None) if is_present else None


def _number(value: float | None) -> str:
    """A number; small shares keep two significant digits."""
    return f"{value:.2g}" if value and 0 < value < 1e-3 else units.significant(value)


def _points_grid(law: ScalingLaw) -> Grid:
    """The levels of a law."""
    over = _words(law.over)
    table = Table(law.title, law.points)
    table.key(over, lambda point: f"{point.level:,.0f}", number=True)
    table.number("ops/s", lambda point: point.throughput, tone="strong")
    table.number("runs", lambda point: len(point.runs) or None)
    table.number("in proportion", lambda point: f"{point.efficiency:.0%}")
    if law.fit is not None:
        table.number("law", lambda point: units.significant(point.law), tone="muted")
        table.number("off", _deviation, tone="muted")
    note = (
        f"In proportion: what each of the {over} does, as a share of what each does at the smallest"
        " level."
    )
    return table.grid((note,))


def _deviation(point: ScalingPoint) -> str | None:
    return None if point.law is None else f"{point.throughput.value / point.law - 1:+.1%}"


def _words(over: str) -> str:
    return over.replace("_", " ")
