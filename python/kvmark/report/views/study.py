"""A study for a terminal, and as a page with its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl
from rich.text import Text

from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.analysis.verdict.cases import extremes
from kvmark.analysis.verdict.judge import Verdict
from kvmark.records import Judgement
from kvmark.report.model import units
from kvmark.report.model.answers import StudyAnswer, case_titles, speed
from kvmark.report.model.page import Caveat, Fact, Figure, Page, Section
from kvmark.report.model.tables import Grid, sentence_lines, stacked, to_text
from kvmark.report.views import charts
from kvmark.report.views.charts import PUBLISHED
from kvmark.report.views.figures import BOUNDED_SCHEMA, frame
from kvmark.report.views.sequence import ends_sentence
from kvmark.report.views.study_tables import (
    change_text,
    cost_sentences,
    effect_text,
    effects_by_case_grid,
    effects_grid,
    failures_grid,
    proxies_grid,
    study_grid,
    times_ns,
)
from kvmark.report.views.verdicts import caveat_texts, caveats, counts_sentence, verdict_counts
from kvmark.spec.study import FigureSpec

_NS_PER_MS: Final = 1e6
_ONE_PUBLISHED: Final = PUBLISHED.lstrip(", ")
_TITLES: Final = {"mean": "Mean response time", "max": "Largest response time"}
_Place = tuple[float | str | None, str]
"""The level on the horizontal axis and the panel."""


def study_text(answer: StudyAnswer, width: int) -> Text:
    """The study for a terminal: question, tables, answer, then every verdict reason."""
    grids = (*_case_grids(answer), *_effect_grids(answer))
    return stacked([
        sentence_lines(answer.question, width),
        *(to_text(grid, width) for grid in grids),
        sentence_lines(_study_sentence(answer), width),
        *caveat_texts(_study_caveats(answer), width),
    ])  # fmt: skip


def study_page(answer: StudyAnswer) -> Page:
    """The study as a page."""
    by_case = tuple(
        effects_by_case_grid(effect) for effect in answer.effects if len(effect.by_case) > 1
    )
    parts = [
        Section("every-case", "Every case", grids=_case_grids(answer)),
        Section("effects", "Effects", grids=_effect_grids(answer)),
        Section("figures", "Figures", figures=tuple(_study_figures(answer))),
        *answer.sections,
        Section("effects-by-case", "Effects, case by case", grids=by_case),
    ]
    levels = {
        name: ", ".join(dict.fromkeys(row.levels[name] for row in answer.rows))
        for name in answer.factors
    }
    return Page(
        title=answer.title,
        question=answer.question,
        facts=(
            *(Fact(name, labels) for name, labels in levels.items()),
            Fact("Cases", units.whole(len(answer.rows))),
            Fact("Repetitions", units.whole(answer.repetitions)),
        ),
        answer=_study_sentence(answer),
        counts=verdict_counts(row.figures.verdict for row in answer.rows if row.figures),
        caveats=_study_caveats(answer),
        parts=tuple(part for part in parts if part.grids or part.figures),
        sources=(answer.provenance,),
    )


def _case_grids(answer: StudyAnswer) -> tuple[Grid, ...]:
    grids = [study_grid(answer)]
    if answer.proxies is not None and answer.proxies.costs:
        grids.append(proxies_grid(answer.factors, answer.proxies))
    failures = failures_grid(answer)
    return tuple(grids) if failures is None else (*grids, failures)


def _effect_grids(answer: StudyAnswer) -> tuple[Grid, ...]:
    present = any(effect.by_case or effect.imprecise or effect.cold for effect in answer.effects)
    return (effects_grid(answer),) if present else ()


def _study_caveats(answer: StudyAnswer) -> tuple[Caveat, ...]:
    title = case_titles(answer)
    return caveats(
        [(title(row), row.figures.verdict, row.levels) for row in answer.rows if row.figures],
        "cases",
    )


def _study_sentence(answer: StudyAnswer) -> str:
    """The fastest and the slowest case, the effects, and the number of cases by verdict."""
    sentences = [] if answer.proxies is None else cost_sentences(answer.proxies)
    # A case with a failed run is neither the first nor the last.
    ends = extremes(
        [row for row in answer.rows if row.figures is not None and not row.failures],
        lambda row: row.throughput,
        _verdict,
    )
    sentences.append(ends_sentence(ends, case_titles(answer), lambda row: speed(answer, row)))
    sentences += _effect_sentences(answer)
    counts = verdict_counts(row.figures.verdict for row in answer.rows if row.figures)
    if any(counts.values()):
        sentences.append(counts_sentence(counts, "case"))
    without = sum(row.figures is None for row in answer.rows)
    if without:
        cases = "One case" if without == 1 else f"{units.whole(without)} cases"
        sentences.append(f"{cases} measured nothing.")
    if answer.missing:
        sentences.append(f"{answer.missing} runs are still to be made: continue with --resume.")
    return " ".join(filter(None, sentences))


def _verdict(row: StudyRow) -> Verdict:
    return row.figures.verdict if row.figures else Verdict.of(())


def _effect_sentences(answer: StudyAnswer) -> Iterator[str]:
    """The significant effects between VALID cases, and the number of others."""
    valid = {
        frozenset(row.levels.items()) for row in answer.rows
        if row.figures is not None and _verdict(row).judgement is Judgement.VALID
    }  # fmt: skip
    others = 0
    for effect in answer.effects:
        if not _is_significant(effect) or not _cases(effect) <= valid:
            others += 1
            continue
        published = f", published {change_text(effect.published)}" if effect.published else ""
        measure = effect.asked.of.replace("_", " ")
        yield f"{effect.asked.title}: {measure} {effect_text(effect)}{published}."
    if others:
        count = "One effect is" if others == 1 else f"{units.whole(others)} effects are"
        yield f"{count} within chance, or of cases that aren't all VALID."


def _is_significant(effect: StudyEffect) -> bool:
    """Whether the interval excludes 0, or the cases contradict each other."""
    if effect.extremes is not None:
        return True
    if effect.change is None or effect.change.low is None or effect.change.high is None:
        return False
    return effect.change.low > 0 or effect.change.high < 0


def _cases(effect: StudyEffect) -> set[frozenset[tuple[str, str]]]:
    """The levels of the cases of an effect."""
    sides = (effect.asked.before, effect.asked.after)
    return {frozenset({**pair.levels, **side}.items()) for pair in effect.by_case for side in sides}


def _study_figures(answer: StudyAnswer) -> Iterator[Figure]:
    """Throughput and response times across a factor, as the study defines them."""
    layout = answer.figure
    if layout is None or layout.across not in answer.factors:
        return
    names = {"throughput": ("throughput", "Throughput", answer.unit)}
    for time in layout.times:
        name = "response" if time == "p99" else f"response-{time}"
        heading = "p99.9" if time == "p999" else time
        title = _TITLES.get(time, f"Response time at {heading}")
        names[time] = (name, title, f"response time {heading}, ms")
    for quantity, (name, title, axis) in names.items():
        data = _frame(answer, layout, quantity)
        if not data.is_empty():
            yield Figure(
                name=name,
                title=f"{title} across {layout.across}",
                caption=_caption(axis, data, answer),
                data=data,
                spec=charts.level_chart(data, axis, layout.across),
            )


def _frame(answer: StudyAnswer, layout: FigureSpec, quantity: str) -> pl.DataFrame:
    numeric = all(_number(row.levels[layout.across]) is not None for row in answer.rows)
    schema = {layout.across: float if numeric else str, "panel": str, **BOUNDED_SCHEMA}
    rows: list[tuple[object, ...]] = []
    published: list[tuple[_Place, str, float]] = []
    for row in answer.rows:
        level = row.levels[layout.across]
        place = (_number(level) if numeric else level, _varied_levels(row, layout.panels, answer))
        series = _varied_levels(row, layout.series, answer) or "measured"
        value, low, high = _value(row, quantity)
        if value:
            runs = 0 if row.figures is None else len(row.figures.runs)
            rows.append((*place, series, value, low, high, runs))
        name = quantity if quantity == "throughput" else f"{quantity}_ms"
        published_value = getattr(row.published, name, None)
        if published_value:
            published.append((place, series, published_value))
    rows += [
        (*place, series, value, None, None, None)
        for place, series, value in _published_series(published)
    ]
    return frame(rows, schema)


def _published_series(
    published: Sequence[tuple[_Place, str, float]],
) -> list[tuple[_Place, str, float]]:
    """Published values by series, or as a single series if all have the same values."""
    at: dict[_Place, set[float]] = {}
    for place, _, value in published:
        at.setdefault(place, set()).add(value)
    several = len({series for _, series, _ in published}) > 1
    if several and all(len(values) == 1 for values in at.values()):
        return [(place, _ONE_PUBLISHED, value) for place, values in at.items() for value in values]
    return [(place, f"{series}{PUBLISHED}", value) for place, series, value in published]


def _value(row: StudyRow, quantity: str) -> tuple[float | None, float | None, float | None]:
    """Throughput, or a response time in ms, with its interval."""
    estimate = row.response_p99 if quantity == "p99" else row.throughput
    if row.figures is None:
        return None, None, None
    if quantity not in ("throughput", "p99"):
        (ns,) = times_ns(row, [quantity])
        return (None if ns is None else ns / _NS_PER_MS), None, None
    if estimate is None:
        return None, None, None
    scale = _NS_PER_MS if quantity == "p99" else 1
    low, high = (None if end is None else end / scale for end in (estimate.low, estimate.high))
    return estimate.value / scale, low, high


def _varied_levels(row: StudyRow, factors: Sequence[str], answer: StudyAnswer) -> str:
    """The levels of these factors that differ between cases."""
    texts = []
    for name in factors:
        if name in answer.factors and len({each.levels[name] for each in answer.rows}) > 1:
            level = row.levels[name]
            is_clear = _number(level) is None and level not in ("yes", "no")
            texts.append(level if is_clear else f"{name.replace('_', ' ')} {level}")
    return ", ".join(texts)


def _number(label: str) -> float | None:
    """A positive number: a logarithmic axis has no place for others."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if number > 0 else None


def _caption(quantity: str, data: pl.DataFrame, answer: StudyAnswer) -> str:
    bars = " Bars are 95 % confidence intervals." if data["low"].is_not_null().any() else ""
    has_published = data["series"].str.ends_with(_ONE_PUBLISHED).any()
    source = f" Series named published: {answer.published_source}." if has_published else ""
    return f"{quantity[:1].upper()}{quantity[1:]}, logarithmic.{bars}{source}"
