"""The verdict of a case: made from the verdicts of its runs and their number.

It is another thing than the verdict of a run. What speaks against a run because it is short is the
case's error where it has runs enough: their spread is then known, and their operations count
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records import Judgement
from kvmark.stats import least_observations

__all__ = ["ENOUGH_RUNS", "CaseVerdict", "case_verdict"]

#: With at least so many runs their spread gives the error that one short run can't.
ENOUGH_RUNS: Final = 5
#: What speaks against a run that stands alone, and not against one of several.
_OF_ONE_RUN: Final = frozenset({"too_short"})


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The judgement on a case and its reasons, the gravest first."""

    judgement: Judgement
    reasons: tuple[Reason, ...]
    #: How many runs it was made from.
    runs: int


def case_verdict(verdicts: Iterable[Verdict]) -> CaseVerdict:
    """The verdict of a case from those of its runs: the gravest, each reason with its worst run.

    The evidence says in how many of the runs a reason was found.
    """
    verdicts = list(verdicts)
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for code in dict.fromkeys(reason.code for reason in verdict.reasons):
            same = [reason for reason in verdict.reasons if reason.code == code]
            found.setdefault(code, []).append(_gravest(same))
    together = (_together(code, reasons, len(verdicts)) for code, reasons in found.items())
    whole = Verdict.of(reason for reason in together if reason is not None)
    return CaseVerdict(whole.judgement, whole.reasons, len(verdicts))


def _together(code: str, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """One reason from those of several runs; none where the runs together leave no doubt."""
    gravest = _gravest(reasons)
    if runs == 1:
        return gravest
    if code == "too_few_samples":
        return _samples(gravest, reasons, runs)
    evidence: Mapping[str, float | int | str] = {
        **gravest.evidence,
        "runs_with_this": len(reasons),
        "runs": runs,
    }
    repeated = code in _OF_ONE_RUN and runs >= ENOUGH_RUNS
    return replace(
        gravest,
        level=Level.NOTE if repeated else gravest.level,
        sentence=f"In {len(reasons)} of {runs} runs: {gravest.sentence}",
        evidence=evidence,
    )


def _gravest(reasons: Sequence[Reason]) -> Reason:
    return Verdict.of(reasons).reasons[0]


def _samples(gravest: Reason, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """The operations of all runs count together, as their histograms do."""
    if len(reasons) < runs:
        # In another run even the rarest operation has enough.
        return None
    counts: dict[str, int] = {}
    for reason in reasons:
        name = str(reason.evidence["operation"])
        counts[name] = counts.get(name, 0) + int(reason.evidence["count"])
    rarest = min(counts, key=lambda name: counts[name])
    needed = least_observations(0.99)
    if counts[rarest] >= needed:
        return None
    most = sum(int(reason.evidence["most"]) for reason in reasons)
    return replace(
        gravest,
        level=Level.SUSPECT if most < least_observations(0.95) else Level.NOTE,
        sentence=(
            f"In {runs} runs together {rarest} succeeded {counts[rarest]} times and its p99 needs"
            f" {needed}, so it is not shown."
        ),
        evidence={"operation": rarest, "count": counts[rarest], "most": most, "runs": runs},
    )
