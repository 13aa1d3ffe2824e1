"""The verdict of a case: from its runs' verdicts, their number, and how precise its figure is.

It is another thing than the verdict of a run. What speaks against a run because it is short is the
case's error where it has runs enough: their spread is then known, and their operations count
together. A case that ran less often than its siblings in a design looks surer than they do, because
nothing is known that speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from kvmark.analysis.verdict.checks_precision import IMPRECISE, INSUFFICIENT_DATA, imprecise
from kvmark.analysis.verdict.evidence import reason
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records import Judgement, Run
from kvmark.records.case import experiment
from kvmark.stats import Estimate, least_observations

#: From this number of runs on, their spread gives the error that one short run can't.
_ENOUGH_RUNS: Final = 5
#: What speaks against a run that stands alone, and not against one of several.
_OF_ONE_RUN: Final = frozenset({"too_short"})
_LEAST_REPETITIONS: Final = 3
"""The fewest repetitions of a case of any design."""
_DESIGNS: Final = ("study", "sequence", "ab")


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The judgement on a case and its reasons, the most serious first."""

    judgement: Judgement
    reasons: tuple[Reason, ...]
    #: How many runs it was made from.
    runs: int


def case_verdict(verdicts: Iterable[Verdict]) -> CaseVerdict:
    """The verdict of a case: the worst of its runs' verdicts, each reason with its worst run.

    The evidence says in how many of the runs a reason was found.
    """
    verdicts = list(verdicts)
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for code in dict.fromkeys(one.code for one in verdict.reasons):
            same = [one for one in verdict.reasons if one.code == code]
            found.setdefault(code, []).append(_worst(same))
    together = (_together(code, reasons, len(verdicts)) for code, reasons in found.items())
    whole = Verdict.of(one for one in together if one is not None)
    return CaseVerdict(whole.judgement, whole.reasons, len(verdicts))


def _together(code: str, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """One reason from those of several runs; none where the runs together leave no doubt."""
    worst = _worst(reasons)
    if runs == 1:
        return worst
    if code == "too_few_samples":
        return _samples(worst, reasons, runs)
    evidence: Mapping[str, float | int | str] = {
        **worst.evidence,
        "runs_with_this": len(reasons),
        "runs": runs,
    }
    repeated = code in _OF_ONE_RUN and runs >= _ENOUGH_RUNS
    return replace(
        worst,
        level=Level.NOTE if repeated else worst.level,
        sentence=f"In {len(reasons)} of {runs} runs: {worst.sentence}",
        evidence=evidence,
    )


def _worst(reasons: Sequence[Reason]) -> Reason:
    return Verdict.of(reasons).reasons[0]


def _samples(worst: Reason, reasons: Sequence[Reason], runs: int) -> Reason | None:
    """The operations of all runs count together, as their histograms do."""
    if len(reasons) < runs:
        # In another run even the rarest operation has enough.
        return None
    counts: dict[str, int] = {}
    for one in reasons:
        name = str(one.evidence["operation"])
        counts[name] = counts.get(name, 0) + int(one.evidence["count"])
    rarest = min(counts, key=lambda name: counts[name])
    needed = least_observations(0.99)
    if counts[rarest] >= needed:
        return None
    most = sum(int(one.evidence["most"]) for one in reasons)
    return replace(
        worst,
        level=Level.SUSPECT if most < least_observations(0.95) else Level.NOTE,
        sentence=(
            f"In {runs} runs together {rarest} succeeded {counts[rarest]} times and its p99 needs"
            f" {needed}, so it is not shown."
        ),
        evidence={"operation": rarest, "count": counts[rarest], "most": most, "runs": runs},
    )


class Judged(Protocol):
    """The verdict of a run, or that of a case."""

    @property
    def judgement(self) -> Judgement:
        """VALID, SUSPECT or INVALID."""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons, the most serious first."""


def with_precision(verdict: CaseVerdict, throughput: Estimate) -> CaseVerdict:
    """The verdict on a case with the precision of its throughput between runs.

    The precision within each of several runs is then ignored.
    """
    if verdict.runs < 2:
        return verdict
    kept = [one for one in verdict.reasons if one.code != IMPRECISE]
    found = imprecise(throughput)
    whole = Verdict.of(kept if found is None else [*kept, found])
    return replace(verdict, judgement=whole.judgement, reasons=whole.reasons)


def is_precise(verdict: Judged) -> bool:
    """Whether it may be named, and how it differs from others."""
    return INSUFFICIENT_DATA.isdisjoint(one.code for one in verdict.reasons)


def _least_repetitions(runs: Sequence[Run]) -> int | None:
    """The minimum of the design that these runs of a case belong to; none for runs of no design.

    It is that of the newest pass, where a study was resumed with another number of repetitions.
    """
    for run in reversed(runs):
        for design in _DESIGNS:
            place = experiment(run.manifest, design)
            if place:
                return max(_LEAST_REPETITIONS, int(place.get("least_repetitions", 0)))
    return None


def unrepeated(runs: Sequence[Run]) -> Reason | None:
    """The reason, where a case of a design has fewer repetitions than the design's minimum."""
    least = _least_repetitions(runs)
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
    """The verdict on a case with the reasons of its number of repetitions."""
    found = unrepeated(runs)
    if found is None:
        return verdict
    whole = Verdict.of([*verdict.reasons, found])
    return replace(verdict, judgement=whole.judgement, reasons=whole.reasons)
