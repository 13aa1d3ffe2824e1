"""Two sides of runs, figure by figure: how much they differ, and whether chance explains it.

Sides whose runs were made in blocks, one of each side in each, are compared in pairs. Runs know
their block. So a comparison that is asked for later, by the tags of `kvmark ab`, is the same as
that at its end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kvmark.analysis.compare.comparability import Caution, Difference, cautions, differences
from kvmark.analysis.compare.metrics import (
    Compared,
    Row,
    Rows,
    check_known,
    counts_of,
    figure,
    independent,
    metrics_of,
    operations_of,
    resolution,
    run_value,
    without_effects,
)
from kvmark.analysis.compare.thresholds import Held, failures_beyond, hold, hold_failures, one_sided
from kvmark.analysis.summary.aggregate import verdict_of
from kvmark.analysis.summary.run import clock_step_ns
from kvmark.analysis.verdict.case_verdict import is_repeated
from kvmark.analysis.verdict.judge import Judge, Verdict, judge
from kvmark.errors import UsageError
from kvmark.records import Case, Judgement, Run, block_of, by_case
from kvmark.records.case import experiment
from kvmark.spec.metric import Metric, parse_comparable
from kvmark.spec.objective import Condition, Gate
from kvmark.stats import CONFIDENCE, PrecisionTarget, as_family, decide, paired_jackknife
from kvmark.stats import Effect as Effect  # noqa: PLC0414 - views name its type
from kvmark.stats.level import paired_difference

_HAIR: Final = 1e-9
_NO_SCATTER: Final = Caution(
    "no_scatter",
    "Every block gave the same ratio, as a simulated system does that knows no chance: the interval"
    " is no measurement.",
)

_MOST_TOLD: Final = 6
_NO_CONDITION: Final = Gate()
_Pair = tuple[tuple[Case, list[Run]], tuple[Case, list[Run]]]
"""A case of the baseline and one of the candidate, with their runs."""
_Sides = tuple[Sequence[Run], Sequence[Run]]
"""The runs of the baseline and those of the candidate."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The runs of both sides, block by block."""

    baseline: tuple[Run, ...]
    candidate: tuple[Run, ...]
    #: Runs whose block has none of the other side.
    alone: int
    #: The metric that decided how many blocks there are, and by which rule; none where none did.
    decided_by: tuple[Metric, PrecisionTarget] | None


def _pairs_of(baseline: Sequence[Run], candidate: Sequence[Run]) -> _Pairs | None:
    """The pairs of two sides; none where they weren't made in blocks of the same experiment."""
    first, second = _numbered(baseline), _numbered(candidate)
    if first is None or second is None:
        return None
    (one, before), (other, after) = first, second
    both = sorted(before.keys() & after.keys())
    if one != other or not both:
        return None
    return _Pairs(
        tuple(before[number] for number in both),
        tuple(after[number] for number in both),
        len(before) + len(after) - 2 * len(both),
        _decided_by(before[both[0]]),
    )


def in_blocks(pairs: _Pairs, *, due: bool = False) -> Rows:
    """Compares runs block by block; ``due`` as in :func:`kvmark.analysis.compare.metrics.level`.

    The metric that decided when to stop has the interval that goes with that decision, the others
    the ordinary one of paired blocks.
    """

    def rows(confidence: float) -> Row:
        def row(metric: Metric) -> Compared:
            sides = (pairs.baseline, pairs.candidate)
            before, after = (figure(side, metric, confidence, due=due) for side in sides)
            found = _effect(pairs, metric, confidence, due=due) if before and after else None
            return Compared(metric, before, after, found)

        return row

    return rows


def _pair_cautions(pairs: _Pairs) -> list[Caution]:
    """What is to be known of pairs."""
    found = []
    if pairs.alone:
        told = "run is" if pairs.alone == 1 else "runs are"
        found.append(
            Caution(
                "alone", f"{pairs.alone} {told} left out: its block has none of the other side."
            )
        )
    if pairs.decided_by is not None:
        logs = _log_ratios(pairs, pairs.decided_by[0])
        if len(logs) > 1 and max(logs) - min(logs) < _HAIR:
            found.append(_NO_SCATTER)
    return found


def _effect(pairs: _Pairs, metric: Metric, confidence: float, *, due: bool) -> Effect | None:
    logs, decided_by = _log_ratios(pairs, metric, due=due), pairs.decided_by
    floor = resolution(pairs.baseline, pairs.candidate, metric)
    if decided_by is not None and metric == decided_by[0]:
        return decide(logs, decided_by[1], floor, confidence).effect if logs else None
    if metric.quantile is None:
        return paired_difference(logs, None, confidence, floor) if logs else None
    before, after = (counts_of(side, metric, due=due) for side in (pairs.baseline, pairs.candidate))
    step_ns = clock_step_ns((*pairs.baseline, *pairs.candidate))
    return paired_jackknife(before, after, metric.q, confidence, step_ns)


def _log_ratios(pairs: _Pairs, metric: Metric, *, due: bool = False) -> list[float]:
    """Of each block; empty when a run has no such figure."""
    values = [(run_value(one, metric, due=due), run_value(other, metric, due=due))
              for one, other in zip(pairs.baseline, pairs.candidate, strict=True)]  # fmt: skip
    known = [math.log(after / before) for before, after in values if before and after]
    return known if len(known) == len(values) else []


def _numbered(runs: Sequence[Run]) -> tuple[str, Mapping[int, Run]] | None:
    """The experiment of all these runs, and them by their blocks; of several in one the last."""
    if len({experiment(run.manifest, "ab").get("side") for run in runs}) > 1:
        return None
    blocks = [(run, block_of(run.manifest)) for run in runs]
    known = [(run, block) for run, block in blocks if block is not None]
    names = {block.experiment for _, block in known}
    if len(known) < len(blocks) or len(names) != 1:
        return None
    return names.pop(), {block.number: run for run, block in known}


def _decided_by(run: Run) -> tuple[Metric, PrecisionTarget] | None:
    told: Mapping[str, Any] | None = experiment(run.manifest, "ab").get("asked")
    if told is None:
        return None
    asked = PrecisionTarget(told["within"], told["find"], told["most_blocks"], told["first_stage"])
    return parse_comparable(str(told["metric"])), asked


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
    #: In how many blocks the runs were made, one of each side; none where they are no pairs.
    blocks: int | None = None

    @property
    def failed(self) -> tuple[Held, ...]:
        """The conditions that end a build."""
        return tuple(one for one in self.held if one.failed)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cases that both sides have."""

    cases: tuple[CaseComparison, ...]
    #: Cases of one side only, by name.
    baseline_only: tuple[str, ...]
    candidate_only: tuple[str, ...]
    #: Cases of the baseline that fail a build, because their conditions can't be decided.
    unmeasured: tuple[str, ...] = ()
    #: Coverage of each interval, and of all answers together.
    confidence: float = CONFIDENCE

    @property
    def failed(self) -> tuple[Held, ...]:
        """Every condition that ends a build."""
        return tuple(one for case in self.cases for one in case.failed)

    @property
    def family(self) -> int:
        """The number of changes that share the error level."""
        effects = (row.effect for case in self.cases for row in case.rows)
        return sum(one is not None and one.p_value is not None for one in effects)


def compare(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    *,
    allow: Collection[str] = (),
    gate: Gate = _NO_CONDITION,
    confidence: float = CONFIDENCE,
    judged: Judge = judge,
) -> Comparison:
    """Compares the cases of both sides by their keys; if each side has only one, these two.

    ``judged`` gives the verdict on each run.

    Runs that were made in blocks of one experiment are compared in pairs. Whether metrics changed
    is decided for all of them together, at one error level.

    Raises:
        UsageError: the sides share no case, are unlike, or hold runs that are INVALID, and that
            wasn't allowed; a run ended before its measurement; or a condition names an operation
            that none of the runs that are compared has.
        RecordsError: a run's files can't be read.
    """
    _refuse_unmeasured((*baseline, *candidate))
    before, after = _sides(baseline, candidate)
    pairs = _paired(before, after)
    if not pairs:
        raise UsageError(
            f"the sides have no case in common: the baseline has {_listed(before)} and the"
            f" candidate {_listed(after)}"
        )
    compared = [run for pair in pairs for _, runs in pair for run in runs]
    check_known([one.metric for one in gate.conditions], compared)
    conditions = sum(len(_asked_of(gate, [*one, *other])) for (_, one), (_, other) in pairs)
    asked = _Asked(allow, gate, conditions, confidence, judged)
    paired = {case for pair in pairs for case, _ in pair}
    only = [tuple(case.title for case in side if case not in paired) for side in (before, after)]
    fails = bool(gate.conditions) and gate.if_unknown == "fail"
    return Comparison(
        _as_family([_compare_case(pair, asked) for pair in pairs]),
        baseline_only=only[0],
        candidate_only=only[1],
        unmeasured=only[0] if fails else (),
        confidence=confidence,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """How cases are compared."""

    allow: Collection[str]
    gate: Gate
    #: How many conditions are looked at in all.
    conditions: int
    confidence: float
    judged: Judge


def _compare_case(pair: _Pair, asked: _Asked) -> CaseComparison:
    (case, before), (other, after) = pair
    # Each metric reads the histograms of all runs.
    baseline, candidate = ([run.with_histogram_cache() for run in runs] for runs in (before, after))
    unlike = differences(baseline, candidate)
    refuse_unlike(unlike, asked.allow)
    runs = [*baseline, *candidate]
    verdicts = {run.id: asked.judged(run) for run in runs}
    _refuse_invalid(verdicts, asked.allow)
    pairs = _pairs_of(baseline, candidate)
    sides = baseline, candidate
    return CaseComparison(
        title=(case if case == other else replace(case, apart="")).title,
        baseline_runs=tuple(run.id for run in baseline),
        candidate_runs=tuple(run.id for run in candidate),
        baseline=_called(baseline),
        candidate=_called(candidate),
        rows=_rows(_comparing(sides, pairs), runs, asked),
        cautions=(
            *_doubts(verdicts, baseline, candidate),
            *cautions(baseline, candidate),
            *_unrepeated(baseline, candidate),
            *([] if pairs is None else _pair_cautions(pairs)),
        ),
        differences=unlike,
        held=_held(_comparing(sides, pairs, due=True), sides, asked),
        blocks=None if pairs is None else len(pairs.baseline),
    )


def _comparing(sides: _Sides, pairs: _Pairs | None, *, due: bool = False) -> Rows:
    """Compares both sides; without effects where one is repeated too little for its design."""
    rows = independent(*sides, due=due) if pairs is None else in_blocks(pairs, due=due)
    return rows if all(map(is_repeated, sides)) else without_effects(rows)


def _as_family(cases: Sequence[CaseComparison]) -> tuple[CaseComparison, ...]:
    """The cases with effects that share one error level: all metrics of all cases."""
    effects = [row.effect for case in cases for row in case.rows if row.effect is not None]
    together = iter(as_family(effects))
    return tuple(
        replace(
            case,
            rows=tuple(
                row if row.effect is None else replace(row, effect=next(together))
                for row in case.rows
            ),
        )
        for case in cases
    )


def _rows(rows: Rows, runs: Sequence[Run], asked: _Asked) -> tuple[Compared, ...]:
    """Every metric, those of the conditions too, as far as a side says something of it."""
    row = rows(asked.confidence)
    named = [one.metric for one in _asked_of(asked.gate, runs)]
    found = (row(metric) for metric in dict.fromkeys([*metrics_of(runs), *named]))
    return tuple(one for one in found if one.baseline or one.candidate)


def _held(rows: Rows, sides: _Sides, asked: _Asked) -> tuple[Held, ...]:
    confidence = one_sided(asked.confidence, asked.conditions)
    row, repeated = rows(confidence), all(map(is_repeated, sides))
    held = []
    for one in _asked_of(asked.gate, [run for side in sides for run in side]):
        failures = failures_beyond(*sides, one.metric) if repeated else None
        if failures is None:
            held.append(hold(one, row(one.metric).effect, asked.gate))
        else:
            held.append(hold_failures(one, failures, asked.gate, confidence))
    return tuple(held)


def _asked_of(gate: Gate, runs: Sequence[Run]) -> list[Condition]:
    """The conditions on a case: not those on operations that it doesn't have on either side."""
    there = {None, *operations_of(runs)}
    return [one for one in gate.conditions if one.metric.operation in there]


def _sides(
    baseline: Sequence[Run], candidate: Sequence[Run]
) -> tuple[dict[Case, list[Run]], dict[Case, list[Run]]]:
    """The runs of each case on each side, on any store."""
    ids = {run.id for run in baseline}, {run.id for run in candidate}
    cases = by_case({run.id: run for run in (*baseline, *candidate)}.values(), across_systems=True)
    before, after = (
        {case: same for case, runs in cases.items() if (same := [r for r in runs if r.id in side])}
        for side in ids
    )
    return before, after


def _paired(before: Mapping[Case, list[Run]], after: Mapping[Case, list[Run]]) -> list[_Pair]:
    """The cases that belong together: the same, or else those that go by one name on each side.

    The latter differ in their plans, which is rejected unless it is allowed.
    """
    if len(before) == len(after) == 1:
        return [(next(iter(before.items())), next(iter(after.items())))]
    pairs = [((case, runs), (case, after[case])) for case, runs in before.items() if case in after]
    paired = {case for (case, _), _ in pairs}
    rest = _by_name(before, paired), _by_name(after, paired)
    named = [(rest[0][name], rest[1][name]) for name in rest[0] if name in rest[1]]
    return pairs + [(one[0], other[0]) for one, other in named if len(one) == len(other) == 1]


def _by_name(
    cases: Mapping[Case, list[Run]], but: Collection[Case]
) -> dict[Case, list[tuple[Case, list[Run]]]]:
    """Cases by their names without the compared difference."""
    found: dict[Case, list[tuple[Case, list[Run]]]] = {}
    for case, runs in cases.items():
        if case not in but:
            found.setdefault(replace(case, apart=""), []).append((case, runs))
    return found


def refuse_unlike(unlike: Sequence[Difference], allow: Collection[str]) -> None:
    """Refuses differences of kinds that weren't allowed.

    Raises:
        UsageError: names the first of them.
    """
    kinds = {"plan": "plans", "system": "systems", "environment": "environments"}
    for kind, of in kinds.items():
        found = [one for one in unlike if one.kind == kind]
        if found and kind not in allow:
            told = [f"{one.place} {one.baseline} against {one.candidate}" for one in found]
            more = len(told) - _MOST_TOLD
            listed = "; ".join(told[:_MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
            raise UsageError(
                f"the {of} of the sides differ ({listed}): compare what is alike, or allow it with"
                f" --allow {kind}"
            )


def _refuse_unmeasured(runs: Iterable[Run]) -> None:
    """Rejects runs without figures, which can't be compared."""
    for run in runs:
        if run.manifest.unmeasured is not None:
            raise UsageError(f"run {run.id} {run.manifest.unmeasured}: leave it out")


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
    """What the verdict of the case says against each side."""
    found = []
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        case = verdict_of(runs, (verdicts[run.id] for run in runs))
        for word in (Judgement.INVALID, Judgement.SUSPECT):
            codes = {reason.code for reason in case.reasons if reason.level.value == word.value}
            doubtful = [run for run in runs if codes & _codes(verdicts[run.id])]
            if codes:
                told = f"{len(doubtful)} of {len(runs)} runs of the {side}"
                told = told if doubtful else f"the runs of the {side} together"
                named = ", ".join(sorted(codes))
                found.append(Caution("verdict", f"{word.value}: {told} ({named})."))
    return found


def _codes(verdict: Verdict) -> set[str]:
    return {reason.code for reason in verdict.reasons}


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


def _listed(cases: Iterable[Case]) -> str:
    titles = [case.title for case in cases]
    more = len(titles) - _MOST_TOLD
    return ", ".join(titles[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
