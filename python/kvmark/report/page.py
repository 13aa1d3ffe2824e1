"""What stands on a page, in order, before it becomes HTML or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvmark.analysis import Judgement
from kvmark.report import doubts, figures, sentences
from kvmark.report.answers import Fact, Provenance, RunAnswer, SequenceAnswer
from kvmark.report.facts import phase_title, run_facts
from kvmark.report.figures import Figure
from kvmark.report.grid import Grid
from kvmark.report.table import operations_grid, sequence_grid, verdict_counts


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a page under a heading of its own."""

    #: Identifier within the page.
    name: str
    title: str
    facts: tuple[Fact, ...] = ()
    answer: str = ""
    grids: tuple[Grid, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
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
    parts: tuple[Part, ...]
    sources: tuple[Source, ...]


def sequence_page(answer: SequenceAnswer) -> Page:
    """The YCSB sequence."""
    drawn = [
        figures.throughput_figure(answer.rows, answer.published_source),
        figures.runtime_figure(answer.rows, answer.published_source),
    ]
    if answer.curves:
        drawn.append(figures.quantile_figure(answer.curves, "At the largest number of records."))
    return Page(
        title=answer.title,
        asked=answer.asked,
        facts=(),
        answer=sentences.sequence(answer),
        things="cases",
        counts=verdict_counts(row.figures.verdict for row in answer.rows),
        doubts=tuple(doubts.of_sequence(answer)),
        parts=(
            Part("every-case", "Every case", grids=(sequence_grid(answer),)),
            Part("figures", "Figures", figures=tuple(drawn)),
        ),
        sources=(Source("", answer.provenance),),
    )


def run_page(run: RunAnswer) -> Page:
    """One run."""
    return Page(
        title=run.title,
        asked=f"Run {run.summary.id}, begun {run.summary.created}",
        facts=run.asked,
        answer=sentences.run(run),
        things="runs",
        counts=verdict_counts([run.verdict]),
        doubts=tuple(doubts.of_runs([run])),
        parts=(
            Part("operations", "Operations", facts=run_facts(run), grids=_grids(run)),
            Part("figures", "Figures", figures=_run_figures(run, "")),
        ),
        sources=(Source("", run.provenance),),
    )


def runs_page(runs: Sequence[RunAnswer]) -> Page:
    """Several runs, one after the other."""
    if len(runs) == 1:
        return run_page(runs[0])
    counts = verdict_counts(run.verdict for run in runs)
    return Page(
        title=f"{len(runs)} runs",
        asked="",
        facts=(),
        answer=sentences.beliefs(counts, "run"),
        things="runs",
        counts=counts,
        doubts=tuple(doubts.of_runs(runs)),
        parts=tuple(_run_part(f"run-{number}", run) for number, run in enumerate(runs, 1)),
        sources=tuple(Source(run.summary.id, run.provenance) for run in runs),
    )


def _run_part(name: str, run: RunAnswer) -> Part:
    return Part(
        name=name,
        title=f"{run.title}, run {run.summary.id}",
        facts=(*run.asked, *run_facts(run)),
        answer=sentences.run(run),
        grids=_grids(run),
        figures=_run_figures(run, f"{name}-"),
    )


def _grids(run: RunAnswer) -> tuple[Grid, ...]:
    phases = run.summary.phases
    return tuple(operations_grid(phase, phase_title(run, phase)) for phase in phases)


def _run_figures(run: RunAnswer, prefix: str) -> tuple[Figure, ...]:
    drawn = []
    if not run.intervals.is_empty():
        drawn += [
            figures.rate_figure(run.intervals, run.phases, run.faults),
            figures.response_figure(run.intervals, run.phases, run.faults),
        ]
    if run.curves:
        drawn.append(figures.quantile_figure(run.curves, "The counted phase, by operation."))
    return tuple(figure.named(f"{prefix}{figure.name}") for figure in drawn)
