"""A study's whole answer: for a terminal, and as a page with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from rich.text import Text

from kvmark.analysis import Judgement, Verdict
from kvmark.analysis.compare.extremes import extremes
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.analysis.verdict.case_verdict import Judged
from kvmark.report.charts import vega as charts
from kvmark.report.charts.frames import PUBLISHED
from kvmark.report.format import units
from kvmark.report.format.grid import Grid, to_text
from kvmark.report.format.terminal import doubt_lines, sentence_lines
from kvmark.report.model.answers import Drawn, Fact, StudyAnswer, case_titles, speed
from kvmark.report.model.figures import Figure
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views import doubts
from kvmark.report.views.run_parts import beliefs, ends_sentence
from kvmark.report.views.sequence import verdict_counts
from kvmark.report.views.study_tables import (
    change_text,
    cost_sentences,
    costs_grid,
    effect_text,
    effects_by_case_grid,
    effects_grid,
    failures_grid,
    study_grid,
    times_ns,
)

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


def _study_figures(answer: StudyAnswer) -> tuple[Figure, ...]:
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


def study_text(answer: StudyAnswer, width: int) -> Text:
    """The question, the table of cases, the effects, the answer, then every doubt."""
    lines = [*sentence_lines(answer.question, width), Text()]
    for grid in (*_cases_grids(answer), *_effects_grids(answer)):
        lines += [to_text(grid, width), Text()]
    lines += sentence_lines(_study_sentence(answer), width)
    lines += doubt_lines(_doubts(answer), width)
    return Text("\n").join(lines)


def study_page(answer: StudyAnswer) -> Page:
    """The study as a page."""
    # Figures bring a library that takes a second to load: only reports pay for it.

    figures = _study_figures(answer)
    by_case = tuple(
        effects_by_case_grid(effect) for effect in answer.effects if len(effect.by_case) > 1
    )
    parts = [Section("every-case", "Every case", grids=_cases_grids(answer))]
    if effects := _effects_grids(answer):
        parts.append(Section("effects", "Effects", grids=effects))
    if figures:
        parts.append(Section("figures", "Figures", figures=figures))
    parts += answer.sections
    if by_case:
        parts.append(Section("effects-by-case", "Effects, case by case", grids=by_case))
    return Page(
        title=answer.title,
        asked=answer.question,
        facts=_facts(answer),
        answer=_study_sentence(answer),
        things="cases",
        counts=verdict_counts(row.figures.verdict for row in answer.rows if row.figures),
        doubts=tuple(_doubts(answer)),
        parts=tuple(parts),
        sources=(Origin("", answer.provenance),),
    )


def _study_sentence(answer: StudyAnswer) -> str:
    """The fastest and the slowest case, the effects, and how many cases can be believed."""
    ways = [] if answer.ways is None else cost_sentences(answer.ways)
    told = [*ways, *_extremes(answer), *_effects(answer)]
    measured = [row for row in answer.rows if row.figures is not None]
    if measured:
        told.append(beliefs(verdict_counts(row.figures.verdict for row in measured if row.figures)))
    without = len(answer.rows) - len(measured)
    if without:
        told.append(f"{_counted(without)} measured nothing.")
    if answer.missing:
        told.append(f"{answer.missing} runs are still to be made: go on with --resume.")
    return " ".join(told)


def _extremes(answer: StudyAnswer) -> list[str]:
    # A case of which a run came to no end is no first and no last.
    measured = [row for row in answer.rows if row.figures is not None and not row.failures]
    found = extremes(measured, lambda row: row.throughput, _verdict)
    told = ends_sentence(found, case_titles(answer), lambda row: speed(answer, row))
    return [told] if told else []


def _verdict(row: StudyRow) -> Judged:
    return row.figures.verdict if row.figures else Verdict.of(())


def _effects(answer: StudyAnswer) -> list[str]:
    """The effects that are beyond chance and of VALID cases alone; how many others there are."""
    valid = {
        frozenset(row.levels.items()) for row in answer.rows
        if _verdict(row).judgement is Judgement.VALID and row.figures is not None
    }  # fmt: skip
    told, others = [], 0
    for effect in answer.effects:
        if not _is_sure(effect) or not _cases(effect) <= valid:
            others += 1
            continue
        theirs = f", published {change_text(effect.published)}" if effect.published else ""
        what = effect.asked.of.replace("_", " ")
        told.append(f"{effect.asked.title}: {what} {effect_text(effect)}{theirs}.")
    if others:
        count = "One effect is" if others == 1 else f"{units.whole(others)} effects are"
        told.append(f"{count} within chance, or of cases that aren't all VALID.")
    return told


def _is_sure(effect: StudyEffect) -> bool:
    """Whether the whole interval lies on one side of no change, or the cases contradict."""
    if effect.change is None or effect.extremes is not None:
        return effect.extremes is not None
    low, high = effect.change.low, effect.change.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _cases(effect: StudyEffect) -> set[frozenset[tuple[str, str]]]:
    """The cases that an effect was found in, by their levels."""
    sides = (effect.asked.before, effect.asked.after)
    return {frozenset({**pair.levels, **side}.items()) for pair in effect.by_case for side in sides}


def _cases_grids(answer: StudyAnswer) -> tuple[Grid, ...]:
    grids = [study_grid(answer)]
    if answer.ways is not None and answer.ways.costs:
        grids.append(costs_grid(answer.factors, answer.ways))
    failures = failures_grid(answer)
    return tuple(grids) if failures is None else (*grids, failures)


def _effects_grids(answer: StudyAnswer) -> tuple[Grid, ...]:
    told = any(effect.by_case or effect.imprecise or effect.cold for effect in answer.effects)
    return (effects_grid(answer),) if told else ()


def _doubts(answer: StudyAnswer) -> list[doubts.Doubt]:
    called = case_titles(answer)
    named = [(called(row), row.figures.verdict, row.levels) for row in answer.rows if row.figures]
    return doubts.of_cases(named)


def _facts(answer: StudyAnswer) -> tuple[Fact, ...]:
    levels = {
        name: ", ".join(dict.fromkeys(row.levels[name] for row in answer.rows))
        for name in answer.factors
    }
    return (
        *(Fact(name, text) for name, text in levels.items()),
        Fact("Cases", units.whole(len(answer.rows))),
        Fact("Repetitions", units.whole(answer.repetitions)),
    )


def _counted(count: int) -> str:
    return "One case" if count == 1 else f"{units.whole(count)} cases"
