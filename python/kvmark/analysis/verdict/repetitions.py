"""Whether the cases of a design were repeated often enough to stand in an answer.

A design repeats its cases to know their scatter. A case that ran less often than its siblings looks
surer than they do, because nothing is known that speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvmark.analysis.verdict.case_verdict import CaseVerdict
from kvmark.analysis.verdict.evidence import reason
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Reason
from kvmark.records import Run
from kvmark.records.case import experiment

__all__ = [
    "LEAST_REPETITIONS",
    "is_repeated",
    "least_repetitions",
    "unrepeated",
    "with_repetitions",
]

LEAST_REPETITIONS: Final = 3
"""The fewest repetitions of a case of any design."""
_DESIGNS: Final = ("study", "sequence", "ab")


def least_repetitions(runs: Sequence[Run]) -> int | None:
    """The minimum of the design that these runs of a case belong to; none for runs of no design.

    It is that of the newest pass, where a study was resumed with another number of repetitions.
    """
    for run in reversed(runs):
        for design in _DESIGNS:
            place = experiment(run.manifest, design)
            if place:
                return max(LEAST_REPETITIONS, int(place.get("least_repetitions", 0)))
    return None


def unrepeated(runs: Sequence[Run]) -> Reason | None:
    """The reason, where a case of a design has fewer repetitions than the design's minimum."""
    least = least_repetitions(runs)
    if least is None:
        return None
    have = f"has {len(runs)} {'repetition' if len(runs) == 1 else 'repetitions'}"
    return reason(
        "unrepeated",
        least - len(runs),
        f"the case {have} and its design's minimum is {least}",
        {"repetitions": len(runs), "least": least},
    )


def is_repeated(runs: Sequence[Run]) -> bool:
    """Whether runs of a case are as many as their design asks for at the least."""
    return unrepeated(runs) is None


def with_repetitions(verdict: CaseVerdict, runs: Sequence[Run]) -> CaseVerdict:
    """The verdict on a case with what the number of its repetitions adds."""
    found = unrepeated(runs)
    if found is None:
        return verdict
    whole = Verdict.of([*verdict.reasons, found])
    return replace(verdict, judgement=whole.judgement, reasons=whole.reasons)
