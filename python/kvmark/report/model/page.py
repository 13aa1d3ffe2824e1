"""What stands on a page, in order, before it becomes HTML or Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kvmark.analysis import Judgement
from kvmark.report.format.grid import Grid
from kvmark.report.model import figures
from kvmark.report.model.answers import MOST_DRAWN, Fact, Provenance, RunAnswer, SequenceAnswer
from kvmark.report.model.figures import Figure, course_figures
from kvmark.report.views import doubts, run_parts
from kvmark.report.views.imported import time_of
from kvmark.report.views.run_parts import run_facts, run_grids
from kvmark.report.views.sequence import sequence_grid, verdict_counts
from kvmark.report.views.side_by_side import side_by_side_figures, side_by_side_grid

_MOST_SECTIONS = 100
"""Most runs on a page that has a section for each run: 500 sections are 2 MB."""
_NO_SECTIONS = (
    f"A page of more than {_MOST_SECTIONS} runs has no section for each run. Print the other"
    " figures of a run with kvmark show RUN."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a page under a heading of its own."""

    #: Identifier within the page.
    name: str
    title: str
    facts: tuple[Fact, ...] = ()
    answer: str = ""
    grids: tuple[Grid, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the figures of a page, or of one of its runs, come from."""

    title: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Page:
    """A report."""

    title: str
    asked: str
    facts: tuple[Fact, ...]
    answer: str
    #: What the verdicts are about, cases or runs.
    things: str
    counts: Mapping[Judgement, int]
    #: Gravest first.
    doubts: tuple[doubts.Doubt, ...]
    parts: tuple[Section, ...]
    sources: tuple[Origin, ...]

    @property
    def top(self) -> tuple[Fact, ...]:
        """What a reader must know before any figure: date, commit, machine, verdicts."""
        together: dict[str, dict[str, None]] = {}
        for source in self.sources:
            for fact in source.provenance.top:
                together.setdefault(fact.label, {})[fact.text] = None
        facts = [Fact(label, "; ".join(texts)) for label, texts in together.items()]
        told = doubts.summed_up(self.doubts, self.counts, self.things)
        return (*facts, *([Fact("Verdicts", told)] if told else []))


def sequence_page(answer: SequenceAnswer) -> Page:
    """The YCSB sequence."""
    drawn = [
        figures.throughput_figure(answer.rows, answer.published_source),
        figures.runtime_figure(answer.rows, answer.published_source),
    ]
    if any(row.case.target_rate is not None for row in answer.rows):
        # What was offered is what came out: the question is what it cost.
        drawn = [figures.target_figure(answer.rows)]
    if answer.curves:
        drawn.append(figures.quantile_figure(answer.curves, "At the largest number of records."))
    return Page(
        title=answer.title,
        asked=answer.asked,
        facts=(),
        answer=" ".join((run_parts.sequence(answer), *answer.said)),
        things="cases",
        counts=verdict_counts(row.figures.verdict for row in answer.rows),
        doubts=tuple(doubts.of_sequence(answer)),
        parts=(
            Section("every-case", "Every case", grids=(sequence_grid(answer),)),
            Section("figures", "Figures", figures=tuple(drawn)),
        ),
        sources=(Origin("", answer.provenance),),
    )


def run_page(run: RunAnswer) -> Page:
    """One run."""
    return Page(
        title=run.title,
        asked=f"Run {run.summary.id}, begun {run.summary.created}",
        facts=run.asked,
        answer=run_parts.run(run),
        things="runs",
        counts=verdict_counts([run.verdict]),
        doubts=tuple(doubts.of_runs([run])),
        parts=(
            Section("operations", "Operations", facts=run_facts(run), grids=run_grids(run)),
            Section("figures", "Figures", figures=_run_figures(run, "")),
        ),
        sources=(Origin("", run.provenance),),
    )


def with_part(page: Page, part: Section) -> Page:
    """The page with a part before all others."""
    return replace(page, parts=(part, *page.parts))


def runs_page(runs: Sequence[RunAnswer]) -> Page:
    """Several runs, one after the other."""
    if len(runs) == 1:
        return run_page(runs[0])
    counts = verdict_counts(run.verdict for run in runs)
    return Page(
        title=f"{len(runs)} runs",
        asked="",
        facts=(),
        answer=run_parts.beliefs(counts, "run"),
        things="runs",
        counts=counts,
        doubts=tuple(doubts.of_runs(runs)),
        parts=(_side_by_side(runs), *_run_parts(runs)),
        sources=tuple(_origins(runs)),
    )


def _side_by_side(runs: Sequence[RunAnswer]) -> Section:
    return Section(
        name="side-by-side",
        title="Side by side",
        answer=_NO_SECTIONS if len(runs) > _MOST_SECTIONS else "",
        grids=(side_by_side_grid(runs),),
        figures=side_by_side_figures(runs),
    )


def _run_parts(runs: Sequence[RunAnswer]) -> Iterator[Section]:
    """Each run; many have no figures of their own, which nobody would look through."""
    if len(runs) > _MOST_SECTIONS:
        return
    for number, run in enumerate(runs, 1):
        name = f"run-{number}"
        yield Section(
            name=name,
            title=f"Run {number}: {run.title}, {run.summary.id}",
            facts=(*run.asked, *run_facts(run)),
            answer=run_parts.run(run),
            grids=run_grids(run),
            figures=_run_figures(run, f"{name}-") if len(runs) <= MOST_DRAWN else (),
        )


def _origins(runs: Sequence[RunAnswer]) -> Iterator[Origin]:
    """The provenance of each run. Each document is on the page once: later runs refer to it."""
    first: dict[tuple[str, str], str] = {}
    for run in runs:
        own, facts = dict[str, object](), [*run.provenance.facts]
        for title, document in run.provenance.documents.items():
            owner = first.setdefault((title, json.dumps(document)), run.summary.id)
            if owner == run.summary.id:
                own[title] = document
            elif document:
                facts.append(Fact(title, f"same as {owner}"))
        told = replace(run.provenance, facts=tuple(facts), documents=own)
        yield Origin(run.summary.id, told)


def _run_figures(run: RunAnswer, prefix: str) -> tuple[Figure, ...]:
    drawn = []
    time = time_of(run.intervals)
    if not run.intervals.is_empty() and run.intervals["count"].is_not_null().any():
        drawn.append(figures.rate_figure(run.intervals, run.phases, run.faults))
    if time is not None:
        drawn.append(figures.response_figure(run.intervals, run.phases, run.faults, time))
    if curves := run.curves():
        drawn.append(figures.quantile_figure(curves, "The counted phase, by operation."))
    drawn += course_figures(run)
    return tuple(figure.named(f"{prefix}{figure.name}") for figure in drawn)
