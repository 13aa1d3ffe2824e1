"""The figures of a study: throughput and response times across a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from kvmark.analysis.study import StudyRow
from kvmark.report.charts import vega as charts
from kvmark.report.charts.frames import PUBLISHED
from kvmark.report.model.figures import Figure
from kvmark.report.model.study_answers import Drawn, StudyAnswer
from kvmark.report.views.study_tables import times_ns

__all__ = ["study_figures"]

_NS_PER_MS: Final = 1e6
_PUBLISHED_ONCE: Final = PUBLISHED.lstrip(", ")
_TITLES: Final = {"mean": "Mean response time", "max": "Largest response time"}
_COLUMNS: Final = {
    "panel": pl.String(),
    "series": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "runs": pl.Int64(),
}


def study_figures(answer: StudyAnswer) -> tuple[Figure, ...]:
    """All figures; none where the study has nothing to draw."""
    drawn = answer.drawn
    if drawn is None or drawn.across not in answer.factors:
        return ()
    named = {"throughput": answer.unit}
    titles = {"throughput": "Throughput"}
    for time in drawn.times:
        shown = "p99.9" if time == "p999" else time
        named[_name(time)] = f"response time {shown}, ms"
        titles[_name(time)] = _TITLES.get(time, f"Response time at {shown}")
    frames = {"throughput": _frame(answer, drawn, "throughput")}
    frames |= {_name(time): _frame(answer, drawn, time) for time in drawn.times}
    return tuple(
        Figure(
            name=name,
            title=f"{titles[name]} across {drawn.across}",
            caption=_caption(named[name], data, answer),
            data=data,
            spec=charts.level_chart(data, named[name], drawn.across, "panel"),
        )
        for name, data in frames.items()
        if not data.is_empty()
    )


def _frame(answer: StudyAnswer, drawn: Drawn, quantity: str) -> pl.DataFrame:
    numeric = all(_number(row.levels[drawn.across]) is not None for row in answer.rows)
    level_type = pl.Float64() if numeric else pl.String()
    rows: list[tuple[object, ...]] = []
    beside: list[tuple[tuple[object, ...], str, float]] = []
    for row in answer.rows:
        level = row.levels[drawn.across]
        place = (_number(level) if numeric else level, _named(row, drawn.panels, answer))
        series = _named(row, drawn.series, answer) or "measured"
        runs = 0 if row.figures is None else len(row.figures.runs)
        value, low, high = _value(row, quantity)
        if value:
            rows.append((*place, series, value, low, high, runs))
        theirs = _published(row, quantity)
        if theirs:
            beside.append((place, series, theirs))
    rows += [
        (*place, series, theirs, None, None, None) for place, series, theirs in _named_once(beside)
    ]
    return pl.DataFrame(rows, schema={drawn.across: level_type, **_COLUMNS}, orient="row")


def _named_once(
    beside: Sequence[tuple[tuple[object, ...], str, float]],
) -> list[tuple[tuple[object, ...], str, float]]:
    """Published values by series, or as a single one where all series have the same."""
    at: dict[tuple[object, ...], set[float]] = {}
    for place, _, theirs in beside:
        at.setdefault(place, set()).add(theirs)
    several = len({series for _, series, _ in beside}) > 1
    if several and all(len(values) == 1 for values in at.values()):
        return [
            (place, _PUBLISHED_ONCE, theirs) for place, values in at.items() for theirs in values
        ]
    return [(place, f"{series}{PUBLISHED}", theirs) for place, series, theirs in beside]


def _value(row: StudyRow, quantity: str) -> tuple[float | None, float | None, float | None]:
    if row.figures is None:
        return None, None, None
    if quantity == "throughput":
        throughput = row.throughput
        return (
            (None, None, None)
            if throughput is None
            else (throughput.value, throughput.low, throughput.high)
        )
    if quantity != "p99":
        (time,) = times_ns(row, [quantity])
        return (None if time is None else time / _NS_PER_MS), None, None
    p99 = row.response_p99
    if p99 is None:
        return None, None, None
    low, high = (None if ns is None else ns / _NS_PER_MS for ns in (p99.low, p99.high))
    return p99.value / _NS_PER_MS, low, high


def _name(time: str) -> str:
    """The figure of a time: that of p99 needs no more than its kind."""
    return "response" if time == "p99" else f"response-{time}"


def _published(row: StudyRow, quantity: str) -> float | None:
    if row.published is None:
        return None
    name = quantity if quantity == "throughput" else f"{quantity}_ms"
    found: float | None = getattr(row.published, name, None)
    return found


def _named(row: StudyRow, factors: Sequence[str], answer: StudyAnswer) -> str:
    """The levels of these factors that aren't the same everywhere, in words."""
    told = []
    for name in factors:
        if name in answer.factors and len({one.levels[name] for one in answer.rows}) > 1:
            plain = _number(row.levels[name]) is None and row.levels[name] not in ("yes", "no")
            told.append(row.levels[name] if plain else f"{_words(name)} {row.levels[name]}")
    return ", ".join(told)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(label: str) -> float | None:
    """A positive number: a logarithmic axis has no place for others."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if number > 0 else None


def _caption(what: str, data: pl.DataFrame, answer: StudyAnswer) -> str:
    known = data["low"].is_not_null().any()
    bars = " Bars are 95 % confidence intervals." if known else ""
    beside = data["series"].str.ends_with(_PUBLISHED_ONCE).any()
    theirs = f" Series named published: {answer.published_source}." if beside else ""
    return f"{what[:1].upper()}{what[1:]}, logarithmic.{bars}{theirs}"
