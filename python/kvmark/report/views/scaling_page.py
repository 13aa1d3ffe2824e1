"""Scaling laws as a page that becomes HTML or Markdown."""

from __future__ import annotations

from kvmark.analysis import Level, Reason, Verdict
from kvmark.analysis.models.scaling import ScalingLaw
from kvmark.report.model.answers import Fact, Provenance
from kvmark.report.model.page import Origin, Page, Section
from kvmark.report.views import doubts
from kvmark.report.views.scaling import ScalingAnswer, scaling_grids, scaling_sentence
from kvmark.report.views.scaling_figure import scaling_figure

__all__ = ["scaling_page"]


def scaling_page(answer: ScalingAnswer, command: tuple[str, ...] = ()) -> Page:
    """The laws, their figure, and what speaks against each."""
    laws = answer.laws
    parts = [
        Section(
            "laws",
            "Laws",
            facts=tuple(Fact(law.title, scaling_sentence(law)) for law in laws),
            grids=scaling_grids(answer),
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
