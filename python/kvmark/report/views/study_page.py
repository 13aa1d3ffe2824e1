"""A study's whole answer: for a terminal, and as a page that becomes HTML or Markdown."""

from __future__ import annotations

from rich.text import Text

from kvmark.analysis import Judgement, Verdict
from kvmark.analysis.compare.extremes import extremes
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.analysis.verdict.precision import Judged
from kvmark.report.format import units
from kvmark.report.format.grid import Grid, to_text
from kvmark.report.format.terminal import doubt_lines, sentence_lines
from kvmark.report.model.answers import Fact
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.model.study_answers import StudyAnswer, case_titles, speed
from kvmark.report.views import doubts
from kvmark.report.views.extremes import ends_sentence
from kvmark.report.views.proxies import cost_sentences, costs_grid
from kvmark.report.views.sentences import beliefs
from kvmark.report.views.sequence import verdict_counts
from kvmark.report.views.study_tables import (
    change_text,
    effect_text,
    effects_by_case_grid,
    effects_grid,
    failures_grid,
    study_grid,
)
from kvmark.report.views.yugabyte import case_grid, operations_by_workload

__all__ = ["study_page", "study_sentence", "study_text"]


def study_text(answer: StudyAnswer, width: int) -> Text:
    """The question, the table of cases, the effects, the answer, then every doubt."""
    lines = [*sentence_lines(answer.question, width), Text()]
    for grid in (*_cases_grids(answer), *_effects_grids(answer)):
        lines += [to_text(grid, width), Text()]
    lines += sentence_lines(study_sentence(answer), width)
    lines += doubt_lines(_doubts(answer), width)
    return Text("\n").join(lines)


def study_page(answer: StudyAnswer) -> Page:
    """The study as a page."""
    # Figures bring a library that takes a second to load: only reports pay for it.
    from kvmark.report.views.study_figures import study_figures  # noqa: PLC0415

    figures = study_figures(answer)
    by_case = tuple(
        effects_by_case_grid(effect) for effect in answer.effects if len(effect.by_case) > 1
    )
    parts = [Section("every-case", "Every case", grids=_cases_grids(answer))]
    if effects := _effects_grids(answer):
        parts.append(Section("effects", "Effects", grids=effects))
    if figures:
        parts.append(Section("figures", "Figures", figures=figures))
    if answer.applications:
        tables = tuple(map(case_grid, answer.applications))
        parts.append(Section("applications", "Each application over its intervals", grids=tables))
    if answer.operations:
        table = operations_by_workload(answer.operations)
        parts.append(Section("operations", "Each operation", grids=(table,)))
    if by_case:
        parts.append(Section("effects-by-case", "Effects, case by case", grids=by_case))
    return Page(
        title=answer.title,
        asked=answer.question,
        facts=_facts(answer),
        answer=study_sentence(answer),
        things="cases",
        counts=verdict_counts(row.figures.verdict for row in answer.rows if row.figures),
        doubts=tuple(_doubts(answer)),
        parts=tuple(parts),
        sources=(Origin("", answer.provenance),),
    )


def study_sentence(answer: StudyAnswer) -> str:
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
