"""Two sides of runs, figure by figure: how much they differ, and whether chance explains it.

Sides whose runs were made in blocks, one of each side in each, are compared in pairs. Runs know
their block. So a comparison that is asked for later, by the tags of `kvmark ab`, is the same as
that at its end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kvmark.analysis.compare import bounds, comparability
from kvmark.analysis.compare.comparability import Caution, Difference
from kvmark.analysis.summary import metrics
from kvmark.analysis.summary.imported import case_runs
from kvmark.analysis.summary.run import clock_step_ns, system_text
from kvmark.analysis.verdict.cases import is_repeated, verdict_of
from kvmark.analysis.verdict.judge import Judge, Verdict, judge
from kvmark.errors import UsageError
from kvmark.records import Case, Judgement, Run, block_of, by_case
from kvmark.records.case import experiment
from kvmark.spec.metric import THROUGHPUT, Condition, Gate, Metric, parse_comparable
from kvmark.stats import CONFIDENCE, PrecisionTarget, as_family, decide, paired_jackknife
from kvmark.stats import Effect as Effect  # noqa: PLC0414 - views name its type
from kvmark.stats.estimate import Estimate
from kvmark.stats.level import difference, paired_difference

_HAIR: Final = 1e-9
_NO_SCATTER: Final = Caution(
    "no_scatter",
    "Every block gave the same ratio, as a simulated system does that knows no chance: the interval"
    " is no measurement.",
)

_MOST_LISTED: Final = 20
_NO_CONDITION: Final = Gate()
_Pair = tuple[tuple[Case, list[Run]], tuple[Case, list[Run]]]
"""A case of the baseline and one of the candidate, with their runs."""
_CasesOfSide = dict[Case, list[Run]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric on both sides. A side is none where it has too few operations for it."""

    metric: Metric
    baseline: Estimate | None
    candidate: Estimate | None
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class _Sides:
    """The runs of a case on both sides."""

    baseline: Sequence[Run]
    candidate: Sequence[Run]
    #: None where the runs aren't pairs; else how many have no run of the other side in their block.
    alone: int | None = None
    #: The metric that decided how many blocks there are, and by which rule; none where none did.
    decided_by: tuple[Metric, PrecisionTarget] | None = None

    @property
    def both(self) -> tuple[Sequence[Run], Sequence[Run]]:
        """The baseline and the candidate."""
        return self.baseline, self.candidate

    @property
    def runs(self) -> list[Run]:
        """The runs of both."""
        return [*self.baseline, *self.candidate]

    def in_blocks(self) -> _Sides | None:
        """The pairs; none where the sides weren't made in blocks of the same experiment."""
        first, second = map(_numbered, self.both)
        if first is None or second is None or first[0] != second[0]:
            return None
        before, after = first[1], second[1]
        paired = sorted(before.keys() & after.keys())
        if not paired:
            return None
        return _Sides(
            [before[number] for number in paired],
            [after[number] for number in paired],
            len(before) + len(after) - 2 * len(paired),
            _decided_by(before[paired[0]]),
        )

    def compared(self, metric: Metric, confidence: float, *, due: bool = False) -> Compared:
        """A metric on both sides; ``due`` as in :func:`kvmark.analysis.summary.metrics.level`.

        In blocks, the metric that decided when to stop has the interval that goes with that
        decision, the others the ordinary one of pairs.
        """
        levels = [metrics.level(side, metric, due=due) for side in self.both]
        before, after = (
            None if one is None else metrics.figure_of(one, side, metric, confidence)
            for one, side in zip(levels, self.both, strict=True)
        )
        if levels[0] is None or levels[1] is None:
            return Compared(metric, before, after, None)
        if self.alone is None:
            return Compared(metric, before, after, difference(levels[0], levels[1], confidence))
        return Compared(metric, before, after, self._paired_effect(metric, confidence, due=due))

    def _paired_effect(self, metric: Metric, confidence: float, *, due: bool) -> Effect | None:
        logs, floor = self._log_ratios(metric, due=due), metrics.resolution(*self.both, metric)
        if self.decided_by is not None and metric == self.decided_by[0]:
            return decide(logs, self.decided_by[1], floor, confidence).effect if logs else None
        if metric.quantile is None:
            return paired_difference(logs, None, confidence, floor) if logs else None
        before, after = (metrics.counts_of(side, metric, due=due) for side in self.both)
        return paired_jackknife(before, after, metric.q, confidence, clock_step_ns(self.runs))

    def _log_ratios(self, metric: Metric, *, due: bool = False) -> list[float]:
        """Of each block; empty when a run has no such figure."""
        values = [[metrics.run_value(run, metric, due=due) for run in side] for side in self.both]
        pairs = list(zip(*values, strict=True))
        known = [math.log(after / before) for before, after in pairs if before and after]
        return known if len(known) == len(pairs) else []

    def cautions(self) -> list[Caution]:
        """What is to be known of pairs."""
        found = []
        if self.alone:
            left_out = "run is" if self.alone == 1 else "runs are"
            sentence = f"{self.alone} {left_out} left out: its block has none of the other side."
            found.append(Caution("alone", sentence))
        if self.decided_by is not None:
            logs = self._log_ratios(self.decided_by[0])
            if len(logs) > 1 and max(logs) - min(logs) < _HAIR:
                found.append(_NO_SCATTER)
        return found


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
    spec: Mapping[str, Any] | None = experiment(run.manifest, "ab").get("asked")
    if spec is None:
        return None
    target = PrecisionTarget(spec["within"], spec["find"], spec["most_blocks"], spec["first_stage"])
    return parse_comparable(str(spec["metric"])), target


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
    held: tuple[bounds.GateResult, ...]
    #: In how many blocks the runs were made, one of each side; none where they are no pairs.
    blocks: int | None = None


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
    def failed(self) -> tuple[bounds.GateResult, ...]:
        """Every condition that ends a build."""
        return tuple(one for case in self.cases for one in case.held if one.failed)

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
    first: Metric = THROUGHPUT,
) -> Comparison:
    """Compares the cases of both sides by their keys; if each side has only one, these two.

    ``judged`` gives the verdict on each run, and ``first`` is the first metric of each case.

    Runs that were made in blocks of one experiment are compared in pairs. Whether metrics changed
    is decided for all of them together, at one error level.

    Raises:
        UsageError: the sides share no case, are unlike, or hold runs that are INVALID, and that
            wasn't allowed; a run ended before its measurement; or a condition names an operation
            that none of the runs that are compared has.
        RecordsError: a run's files can't be read.
    """
    # Runs without figures can't be compared.
    for run in (*baseline, *candidate):
        if run.manifest.unmeasured is not None:
            raise UsageError(f"run {run.id} {run.manifest.unmeasured}: leave it out")
    before, after = _sides(baseline, candidate)
    pairs = _paired(before, after)
    if not pairs:
        imports = any(run.manifest.imported for run in (*baseline, *candidate))
        ours, theirs = (_listed([case.title for case in side]) for side in (before, after))
        raise UsageError(
            f"the sides have no case in common: the baseline has {ours} and the candidate {theirs}"
            f"{'; choose a case of an import with RUN#CASE' if imports else ''}"
        )
    compared = [run for pair in pairs for _, runs in pair for run in runs]
    metrics.check_known([one.metric for one in gate.conditions], compared)
    counts = [len(_conditions(gate, [*one, *other])) for (_, one), (_, other) in pairs]
    confidences = (confidence, bounds.one_sided(confidence, sum(counts)))
    paired = {case for pair in pairs for case, _ in pair}
    only = [tuple(case.title for case in side if case not in paired) for side in (before, after)]
    fails = bool(gate.conditions) and gate.if_unknown == "fail"
    return Comparison(
        _as_family(
            [_compare_case(pair, allow, gate, confidences, judged, first) for pair in pairs]
        ),
        baseline_only=only[0],
        candidate_only=only[1],
        unmeasured=only[0] if fails else (),
        confidence=confidence,
    )


def _compare_case(
    pair: _Pair,
    allow: Collection[str],
    gate: Gate,
    confidences: tuple[float, float],
    judged: Judge,
    first: Metric,
) -> CaseComparison:
    """Compares one case; intervals of changes and of conditions have these coverages."""
    (case, before), (other, after) = pair
    # Each metric reads the histograms of all runs.
    baseline, candidate = ([run.with_histogram_cache() for run in runs] for runs in (before, after))
    unlike = comparability.differences(baseline, candidate)
    refuse_unlike(unlike, allow)
    all_sides = _Sides(baseline, candidate)
    verdicts = {run.id: judged(run) for run in all_sides.runs}
    _refuse_invalid(verdicts, allow)
    pairs = all_sides.in_blocks()
    compared = (pairs or all_sides).compared
    # A side that is repeated too little for its design gives figures without effects.
    repeated = is_repeated(baseline) and is_repeated(candidate)
    conditions = _conditions(gate, all_sides.runs)
    asked = (one.metric for one in conditions)
    shown = dict.fromkeys([first, *metrics.metrics_of(all_sides.runs), *asked])
    rows = [compared(metric, confidences[0]) for metric in shown]
    if not repeated:
        rows = [replace(row, effect=None) for row in rows]
    held = []
    for one in conditions:
        failures = bounds.failures_beyond(baseline, candidate, one.metric) if repeated else None
        if failures is not None:
            held.append(bounds.evaluate_failures(one, failures, gate, confidences[1]))
        else:
            row = compared(one.metric, confidences[1], due=True)
            held.append(bounds.evaluate_gate(one, row.effect if repeated else None, gate))
    cautions = (
        *_doubts(verdicts, baseline, candidate),
        *comparability.cautions(baseline, candidate),
        *_unrepeated(baseline, candidate),
        *([] if pairs is None else pairs.cautions()),
    )
    names = comparability.difference_names(baseline, candidate, unlike)
    return CaseComparison(
        title=(case if case == other else replace(case, apart="")).title,
        baseline_runs=tuple(run.id for run in baseline), baseline=_called(baseline, names[0]),
        candidate_runs=tuple(run.id for run in candidate), candidate=_called(candidate, names[1]),
        rows=tuple(row for row in rows if row.baseline or row.candidate), cautions=cautions,
        differences=unlike, held=tuple(held), blocks=None if pairs is None else len(pairs.baseline),
    )  # fmt: skip


def _as_family(cases: Sequence[CaseComparison]) -> tuple[CaseComparison, ...]:
    """The cases with effects that share one error level: all metrics of all cases."""
    effects = [row.effect for case in cases for row in case.rows if row.effect is not None]
    together = iter(as_family(effects))

    def adjusted(row: Compared) -> Compared:
        return row if row.effect is None else replace(row, effect=next(together))

    return tuple(replace(case, rows=tuple(map(adjusted, case.rows))) for case in cases)


def _conditions(gate: Gate, runs: Sequence[Run]) -> list[Condition]:
    """The conditions on a case: not those on operations that it doesn't have on either side."""
    there = {None, *metrics.operations_of(runs)}
    return [one for one in gate.conditions if one.metric.operation in there]


def _sides(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[_CasesOfSide, _CasesOfSide]:
    """The runs of each case on each side, on any store; each case of an import is a run."""
    sides = [
        {one.id: one for run in side for one in case_runs(run)} for side in (baseline, candidate)
    ]
    cases = by_case((sides[0] | sides[1]).values(), across_systems=True)
    before, after = (
        {case: same for case, runs in cases.items() if (same := [r for r in runs if r.id in side])}
        for side in sides
    )
    return before, after


def _paired(before: _CasesOfSide, after: _CasesOfSide) -> list[_Pair]:
    """The cases that belong together: the same, or else those that go by one name on each side.

    The latter differ in their plans, which is rejected unless it is allowed.
    """
    if len(before) == len(after) == 1:
        return [(next(iter(before.items())), next(iter(after.items())))]
    pairs = [((case, runs), (case, after[case])) for case, runs in before.items() if case in after]
    named: dict[Case, tuple[list[Case], list[Case]]] = {}
    for place, side in enumerate((before, after)):
        for case in (case for case in side if not (case in before and case in after)):
            named.setdefault(replace(case, apart=""), ([], []))[place].append(case)
    rest = [(one[0], other[0]) for one, other in named.values() if len(one) == len(other) == 1]
    return pairs + [((one, before[one]), (other, after[other])) for one, other in rest]


def refuse_unlike(unlike: Sequence[Difference], allow: Collection[str]) -> None:
    """Refuses differences of kinds that weren't allowed.

    Raises:
        UsageError: names the first of them.
    """
    kinds = {"plan": "plans", "system": "systems", "environment": "environments"}
    for kind, of in kinds.items():
        found = [one for one in unlike if one.kind == kind]
        if found and kind not in allow:
            text = comparability.differences_text(found)
            raise UsageError(
                f"the {of} of the sides differ ({text}): compare what is alike, or allow it with"
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
    """What the verdict of the case says against each side."""
    found = []
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        case = verdict_of(runs, (verdicts[run.id] for run in runs))
        for word in (Judgement.INVALID, Judgement.SUSPECT):
            codes = {reason.code for reason in case.reasons if reason.level.value == word.value}
            doubtful = [
                run for run in runs if any(one.code in codes for one in verdicts[run.id].reasons)
            ]
            if codes:
                some = f"{len(doubtful)} of {len(runs)} runs of the {side}"
                subject = some if doubtful else f"the runs of the {side} together"
                named = ", ".join(sorted(codes))
                found.append(Caution("verdict", f"{word.value}: {subject} ({named})."))
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


def _called(runs: Sequence[Run], name: str) -> str:
    """A side in a few words: what is measured, the name of its difference, and its commit."""
    systems = dict.fromkeys(map(system_text, runs))
    commits = dict.fromkeys(run.manifest.commit for run in runs if run.manifest.commit)
    named = f" at {', '.join(commits)}" if commits else ""
    count = f"{len(runs)} runs" if len(runs) > 1 else f"run {runs[0].id}"
    return f"{', '.join([*systems, *filter(None, [name])])}{named}, {count}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
