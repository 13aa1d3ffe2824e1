"""Two sides of runs, figure by figure: how much they differ, and whether chance explains it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.conditions import Condition, Held, hold
from kvmark.analysis.likeness import Caution, Difference, cautions, differences
from kvmark.analysis.metrics import Metric, level, metrics_of
from kvmark.analysis.verdict import Verdict, judge
from kvmark.analysis.ycsb_sequence import Case, case_of
from kvmark.errors import UsageError
from kvmark.records import Judgement, Run
from kvmark.stats import CONFIDENCE, Effect, Estimate, Level, difference

__all__ = [
    "CaseComparison", "Compared", "Comparison", "Effect", "Row", "compare", "compare_case",
    "compared",
]  # fmt: skip

_MOST_TOLD: Final = 6


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric on both sides. A side is none where it has too few operations for it."""

    metric: Metric
    baseline: Estimate | None
    candidate: Estimate | None
    effect: Effect | None


Row = Callable[[Sequence[Run], Sequence[Run], Metric], Compared]


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One case on both sides."""

    title: str
    baseline_runs: tuple[str, ...]
    candidate_runs: tuple[str, ...]
    #: What is compared by name: system and version, commit, tags.
    baseline: str
    candidate: str
    rows: tuple[Compared, ...]
    cautions: tuple[Caution, ...]
    #: What is not alike and was allowed to be.
    differences: tuple[Difference, ...]
    held: tuple[Held, ...]

    @property
    def failed(self) -> tuple[Held, ...]:
        """The conditions that it doesn't meet."""
        return tuple(one for one in self.held if one.failed)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cases that both sides have."""

    cases: tuple[CaseComparison, ...]
    #: Cases of one side only, by name.
    baseline_only: tuple[str, ...]
    candidate_only: tuple[str, ...]

    @property
    def failed(self) -> tuple[Held, ...]:
        """Every condition that a case doesn't meet."""
        return tuple(one for case in self.cases for one in case.failed)


def compare(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    *,
    allow: Collection[str] = (),
    conditions: Sequence[Condition] = (),
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compares the cases that both sides have; where each side has one, whatever they are.

    Raises:
        UsageError: the sides share no case, are unlike, or hold runs that are INVALID, and that
            wasn't allowed.
        RecordsError: a run's files can't be read.
    """
    before, after = _by_case(baseline), _by_case(candidate)
    pairs = [(case, case) for case in before if case in after]
    if len(before) == len(after) == 1:
        pairs = [(next(iter(before)), next(iter(after)))]
    if not pairs:
        raise UsageError(
            f"the sides have no case in common: the baseline has {_listed(before)} and the"
            f" candidate {_listed(after)}"
        )
    asked = len(conditions) * len(pairs)
    cases = tuple(
        compare_case(
            before[one], after[other], allow=allow, conditions=conditions, asked=asked,
            confidence=confidence, title=_title(one),
        )
        for one, other in pairs
    )  # fmt: skip
    paired = {case for pair in pairs for case in pair}
    return Comparison(
        cases,
        tuple(_title(case) for case in before if case not in paired),
        tuple(_title(case) for case in after if case not in paired),
    )


def compare_case(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    *,
    allow: Collection[str] = (),
    conditions: Sequence[Condition] = (),
    asked: int | None = None,
    confidence: float = CONFIDENCE,
    title: str = "",
    row: Row | None = None,
) -> CaseComparison:
    """Compares the runs of one case; ``asked`` is how many conditions are looked at in all.

    ``row`` compares a metric where the runs aren't independent of each other.

    Raises:
        UsageError: the sides are unlike or hold runs that are INVALID, and that wasn't allowed.
        RecordsError: a run's files can't be read.
    """
    unlike = differences(baseline, candidate)
    _refuse(unlike, allow)
    verdicts = {run.id: judge(run, len(side)) for side in (baseline, candidate) for run in side}
    _refuse_invalid(verdicts, allow)
    metrics = metrics_of([*baseline, *candidate])
    named = [one.metric for one in conditions if one.metric not in metrics]
    made = row or independent(confidence)
    rows = [made(baseline, candidate, one) for one in (*metrics, *named)]
    effects = {row.metric: row.effect for row in rows}
    held = [
        hold(one, effects[one.metric], len(conditions) if asked is None else asked)
        for one in conditions
    ]
    return CaseComparison(
        title=title or _title(case_of(baseline[0])),
        baseline_runs=tuple(run.id for run in baseline),
        candidate_runs=tuple(run.id for run in candidate),
        baseline=_called(baseline),
        candidate=_called(candidate),
        rows=tuple(row for row in rows if row.baseline or row.candidate),
        cautions=(
            *_doubts(verdicts, baseline, candidate),
            *cautions(baseline, candidate),
            *_unrepeated(baseline, candidate),
        ),
        differences=unlike,
        held=tuple(held),
    )


def independent(confidence: float) -> Row:
    """Compares a metric of runs that have nothing to do with each other."""

    def row(baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric) -> Compared:
        sides = level(baseline, metric), level(candidate, metric)
        before, after = sides
        effect = difference(before, after, confidence) if before and after else None
        return compared(metric, sides, effect, confidence)

    return row


def compared(
    metric: Metric, sides: tuple[Level | None, Level | None], effect: Effect | None, share: float
) -> Compared:
    """Both sides' figures with their intervals of coverage ``share``, and the effect."""
    before, after = (side.estimate(metric.unit, share) if side else None for side in sides)
    return Compared(metric, before, after, effect)


def _by_case(runs: Sequence[Run]) -> Mapping[Case, list[Run]]:
    """The runs of each case, whatever the store."""
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        case = case_of(run)
        cases.setdefault(Case(case.workload, "", case.records, case.target_rate), []).append(run)
    return cases


def _refuse(unlike: Sequence[Difference], allow: Collection[str]) -> None:
    for kind, of in (("plan", "plans"), ("system", "systems")):
        found = [one for one in unlike if one.kind == kind]
        if found and kind not in allow:
            told = [f"{one.place} {one.baseline} against {one.candidate}" for one in found]
            more = len(told) - _MOST_TOLD
            listed = "; ".join(told[:_MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
            raise UsageError(
                f"the {of} of the sides differ ({listed}): compare what is alike, or allow it with"
                f" --allow {kind}"
            )


def _refuse_invalid(verdicts: Mapping[str, Verdict], allow: Collection[str]) -> None:
    for run, verdict in verdicts.items():
        if verdict.judgement is Judgement.INVALID and "invalid" not in allow:
            reason = verdict.reasons[0].sentence.rstrip(".")
            raise UsageError(
                f"run {run} is INVALID ({reason}): measure it again, or allow it with --allow"
                " invalid"
            )


def _doubts(
    verdicts: Mapping[str, Verdict], baseline: Sequence[Run], candidate: Sequence[Run]
) -> list[Caution]:
    found = []
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        for word in (Judgement.INVALID, Judgement.SUSPECT):
            doubtful = [run.id for run in runs if verdicts[run.id].judgement is word]
            if doubtful:
                codes = dict.fromkeys(
                    reason.code
                    for run in doubtful
                    for reason in verdicts[run].reasons
                    if reason.level.value == word.value
                )
                told = f"{len(doubtful)} of {len(runs)} runs of the {side}"
                found.append(Caution("verdict", f"{word.value}: {told} ({', '.join(codes)})."))
    return found


def _unrepeated(baseline: Sequence[Run], candidate: Sequence[Run]) -> list[Caution]:
    if len(baseline) > 1 and len(candidate) > 1:
        return []
    if len(baseline) == len(candidate) == 1:
        sentence = (
            "Each side is one run: the intervals hold what differs within a run and not what"
            " differs between runs; kvmark ab interleaves several."
        )
    else:
        sentence = "A side of one run is taken to scatter from run to run as the other side does."
    return [Caution("one_run", sentence)]


def _called(runs: Sequence[Run]) -> str:
    """A side in a few words: what is measured, and its commit or tags."""
    systems = dict.fromkeys(
        f"{run.manifest.engine.system.system} {run.manifest.engine.system.version}".strip()
        for run in runs
    )
    commits = dict.fromkeys(run.manifest.commit for run in runs if run.manifest.commit)
    named = f" at {', '.join(commits)}" if commits else ""
    count = f"{len(runs)} runs" if len(runs) > 1 else f"run {runs[0].id}"
    return f"{', '.join(systems)}{named}, {count}"


def _title(case: Case) -> str:
    rate = "" if case.target_rate is None else f" at {case.target_rate:,.10g} ops/s"
    return f"{case.workload} with {case.records:,} records{rate}"


def _listed(cases: Collection[Case]) -> str:
    titles = [_title(case) for case in cases]
    more = len(titles) - _MOST_TOLD
    return ", ".join(titles[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
