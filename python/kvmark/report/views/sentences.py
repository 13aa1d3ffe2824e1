"""Answers said in a sentence: values are picked and cases counted, nothing else is computed."""

from __future__ import annotations

from collections.abc import Mapping

from kvmark.analysis import Judgement, Level, PhaseSummary, SequenceRow
from kvmark.analysis.compare.extremes import extremes
from kvmark.report.format import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.views.extremes import ends_sentence
from kvmark.report.views.imported import imported_sentence
from kvmark.report.views.plan_words import listed
from kvmark.report.views.sequence import verdict_counts


def sequence(answer: SequenceAnswer) -> str:
    """The fastest and the slowest case, and how many cases can be believed."""
    rows = answer.rows
    if not rows:
        return "Nothing was measured."
    found = extremes(rows, lambda row: row.figures.throughput, lambda row: row.figures.verdict)
    belief = beliefs(verdict_counts(row.figures.verdict for row in rows))
    return f"{ends_sentence(found, lambda row: row.case.title, _speed)} {belief}".lstrip()


def run(answer: RunAnswer) -> str:
    """Throughput, the response time of the most frequent operation, and the verdict."""
    if answer.imported is not None:
        return imported_sentence(answer.imported)
    told = [_phase(phase) for phase in answer.summary.phases]
    return " ".join([*told, _run_verdict(answer)])


def beliefs(counts: Mapping[Judgement, int], thing: str = "case") -> str:
    """How many cases, or runs, have which verdict."""
    total = sum(counts.values())
    present = {word.value: count for word, count in counts.items() if count}
    if len(present) == 1:
        word = next(iter(present))
        return f"The one {thing} is {word}." if total == 1 else f"All {total} {thing}s are {word}."
    named = [f"{count} {'is' if count == 1 else 'are'} {word}" for word, count in present.items()]
    return f"Of {total} {thing}s {listed(named)}."


def _phase(phase: PhaseSummary) -> str:
    speed = f"Throughput is {units.estimate(phase.throughput)} ops/s"
    whole = [row for row in phase.operations if not row.part and row.count]
    most = max(whole, key=lambda row: row.count, default=None)
    if most is None:
        return f"{speed}."
    shown = [(name, most.response.shown_ns(name)) for name in ("p50", "p99")]
    times = [f"{units.with_unit(ns)} at {name}" for name, ns in shown if ns is not None]
    if not times:
        return f"{speed}."
    return f"{speed}; the response time of {most.operation} is {listed(times)}."


def _run_verdict(answer: RunAnswer) -> str:
    word = answer.verdict.judgement.value
    count = sum(reason.level is not Level.NOTE for reason in answer.verdict.reasons)
    because = {0: "", 1: ", for one reason"}.get(count, f", for {count} reasons")
    return f"The run is {word}{because}."


def _speed(row: SequenceRow) -> str:
    return f"{units.estimate(row.figures.throughput)} ops/s"
