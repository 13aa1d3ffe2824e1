"""Whether a case is known well enough to stand in an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from kvmark.analysis.verdict.case_verdict import CaseVerdict
from kvmark.analysis.verdict.checks_precision import IMPRECISE, TOO_LITTLE, imprecise
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Reason
from kvmark.records import Judgement
from kvmark.stats import Estimate

__all__ = ["Judged", "is_precise", "with_precision"]


class Judged(Protocol):
    """The verdict of a run, or that of a case."""

    @property
    def judgement(self) -> Judgement:
        """VALID, SUSPECT or INVALID."""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, the gravest first."""


def with_precision(verdict: CaseVerdict, throughput: Estimate) -> CaseVerdict:
    """The verdict on a case with what the scatter of its runs says of its throughput.

    What the intervals of each of several runs say of its own precision is then of no matter.
    """
    if verdict.runs < 2:
        return verdict
    kept = [one for one in verdict.reasons if one.code != IMPRECISE]
    found = imprecise(throughput)
    whole = Verdict.of(kept if found is None else [*kept, found])
    return replace(verdict, judgement=whole.judgement, reasons=whole.reasons)


def is_precise(verdict: Judged) -> bool:
    """Whether it may be named, and how it differs from others."""
    return TOO_LITTLE.isdisjoint(one.code for one in verdict.reasons)
