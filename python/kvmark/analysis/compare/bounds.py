"""Bounds that users set: objectives of runs, and conditions on the changes of a comparison.

A time is bounded for all operations that were due: those that failed, never ended or were never
issued count as slower than any bound. Otherwise a short timeout would keep every bound. A side of a
comparison of which too many operations have no answer has no finite figure of a time, and no ratio.
What can be compared then is the share of the operations without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from kvmark.analysis.summary import metrics
from kvmark.analysis.summary.sums import counted_totals
from kvmark.analysis.verdict.judge import Verdict
from kvmark.records import Run
from kvmark.spec.metric import Condition, Gate, Metric, Objective, parse_objective
from kvmark.spec.quantity import duration_text
from kvmark.stats import BEYOND, Counts, Effect, keeps_within, least_observations, rise_of_share

_UNITS: Final = (("ns", 1), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_LEAST_IN_UNIT: Final = 0.1
_Answer = Literal["worse", "not worse", "can't tell"]
"""The change is surely beyond the margin; it surely isn't; its interval holds the margin, or it has
none."""
_ANSWERS: Final[Mapping[bool | None, _Answer]] = {
    True: "not worse", False: "worse", None: "can't tell",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectiveFigure:
    """The figure of runs that an objective bounds."""

    objective: Objective
    #: In the unit of the objective's bound; none when too few operations were measured, or when it
    #: is beyond any bound.
    value: float | None
    lacking: str = ""
    #: The share of due operations without an answer; 0 if the metric isn't a time.
    unanswered: float = 0.0
    #: Whether unanswered operations put the figure beyond any bound.
    is_beyond: bool = False
    #: The service time with its unit, where the generator was late and it met the objective: the
    #: system may have met it.
    served: str = ""

    @property
    def headline(self) -> str:
        """How it stands, for a reader of the whole run, without a full stop."""
        beside = f"; the generator was late, and the service time met it with {self.served}"
        return f"{self.sentence}{beside if self.served else ''}"

    @property
    def held(self) -> bool | None:
        """Whether it is within its bound; None if that is unknown."""
        if self.is_beyond:
            return False
        return None if self.value is None else self.objective.met(self.value)

    @property
    def sentence(self) -> str:
        """How it stands, without a full stop."""
        text = self.objective.text
        failed = f"{self.unanswered:.3%}"
        if self.is_beyond:
            return (
                f"{text} was missed: {failed} of the operations failed or were never issued, and"
                " these count as slower than any bound"
            )
        if self.value is None:
            return self.lacking
        shown = figure_text(self.objective, self.value)
        counted = f"; {failed} without an answer count as slower" if self.unanswered else ""
        return f"{text} {'held' if self.held else 'was missed'} with {shown}{counted}"


def figure(runs: Sequence[Run], objective: Objective) -> ObjectiveFigure:
    """The objective's figure over all runs together: histograms are merged, shares pooled."""
    if not any(phase.name == "measure" for run in runs for phase in run.counted):
        return ObjectiveFigure(objective, None, f"{objective.text}: nothing was measured")
    metric = objective.metric
    match metric.measure:
        case "throughput":
            rates = [metrics.run_value(run, metric) or 0.0 for run in runs]
            return ObjectiveFigure(objective, sum(rates) / len(rates))
        case "errors":
            failed = sum(metrics.failed_of(run, metric.operation) for run in runs)
            totals = (one for run in runs for one in counted_totals(run, metric.operation))
            ended = sum(total.count for total in totals)
            return ObjectiveFigure(objective, failed / ended if ended else 1.0)
    counts = metrics.due_times(runs, metric.time, metric.operation)
    if counts.n == 0:
        return ObjectiveFigure(objective, None, "no operation succeeded")
    # With a single operation beyond any bound a mean and a maximum are beyond it, too.
    q = metric.q if metric.quantile is not None else 1.0
    if not counts.shows(q):
        needed = least_observations(q)
        lacking = f"{objective.text} needs {needed:,} operations and there are {counts.n:,}"
        return ObjectiveFigure(objective, None, f"{lacking}: measure longer")
    share = sum(metrics.unanswered_of(run, metric.operation) for run in runs) / counts.n
    if counts.quantile(q) == BEYOND:
        return ObjectiveFigure(objective, None, "", share, is_beyond=True)
    value = counts.mean() if metric.measure == "mean" else counts.quantile(q)
    return ObjectiveFigure(objective, None if value is None else float(value), "", share)


_GENERATOR_LATE: Final = frozenset({"schedule_late", "generator_saturated", "waiting_for_core"})
"""Reasons for which the generator, and not the system, may have missed an objective."""


def objective_figures(run: Run, verdict: Verdict) -> tuple[ObjectiveFigure, ...]:
    """The figures of the objectives that the run was measured for."""
    late = any(reason.code in _GENERATOR_LATE for reason in verdict.reasons)
    texts = run.manifest.spec.get("objectives", ())
    figures = [figure([run], parse_objective(text)) for text in texts]
    return tuple(replace(one, served=_served(run, one)) if late else one for one in figures)


def _served(run: Run, missed: ObjectiveFigure) -> str:
    """The service time that met an objective which the response time missed; else empty."""
    metric = missed.objective.metric
    if missed.held is not False or not metric.is_time or metric.time != "response":
        return ""
    objective = replace(missed.objective, metric=replace(metric, time="service"))
    service = figure([run], objective)
    return (
        "" if service.value is None or not service.held else figure_text(objective, service.value)
    )


def figure_text(objective: Objective, value: float) -> str:
    """A figure in the unit of the objective's bound, unless it is far below that unit.

    Times have four digits: with three, those near a bound would be rounded to it.
    """
    if objective.measure == "errors":
        return f"{value:.3%}"
    if objective.measure == "throughput":
        return f"{value:,.0f} ops/s"
    unit_ns = next((ns for unit, ns in _UNITS if objective.text.endswith(unit)), 1e9)
    return duration_text(value, unit_ns if value >= unit_ns * _LEAST_IN_UNIT else None, 4)


@dataclass(frozen=True, slots=True)
class Failures:
    """Operations without an answer on both sides, where a figure is beyond any bound.

    That are those that failed, never ended or were never issued, as a share of those that were due.
    """

    baseline: float
    candidate: float
    #: Whether the figure of each side is beyond any bound.
    baseline_beyond: bool
    candidate_beyond: bool
    #: The chance of a rise of the share at least so large when the sides are equal.
    rise: float


def failures_beyond(
    baseline: Sequence[Run], candidate: Sequence[Run], metric: Metric
) -> Failures | None:
    """The failures of two sides; none where both have a finite figure, or no operation at all.

    Raises:
        RecordsError: a run's files can't be read.
    """
    if not metric.is_time:
        return None
    sides = [metrics.counts_of(side, metric, due=True) for side in (baseline, candidate)]
    beyond = [_is_beyond(Counts.merge(side), metric) for side in sides]
    if not any(beyond) or not all(any(one.n for one in side) for side in sides):
        return None
    samples = [
        [
            (metrics.unanswered_of(run, metric.operation), one.n)
            for run, one in zip(runs, side, strict=True)
        ]
        for runs, side in zip((baseline, candidate), sides, strict=True)
    ]
    before, after = (sum(lost for lost, _ in side) / sum(n for _, n in side) for side in samples)
    return Failures(before, after, beyond[0], beyond[1], rise_of_share(*samples))


def _is_beyond(counts: Counts, metric: Metric) -> bool:
    q = 1.0 if metric.quantile is None else metric.q
    return counts.shows(q) and counts.quantile(q) == BEYOND


@dataclass(frozen=True, slots=True)
class GateResult:
    """The outcome of a condition in a comparison."""

    condition: Condition
    #: With the interval that the condition was tested by; none when the runs say nothing of it.
    effect: Effect | None
    answer: _Answer
    #: Whether that ends a build.
    failed: bool
    #: Why there is no effect: operations failed, and the figure is beyond any bound.
    failures: Failures | None = None


def one_sided(confidence: float, conditions: int) -> float:
    """The coverage of an interval whose ends are one-sided bounds of this confidence.

    The error level is shared by all conditions that are asked at once (Bonferroni).
    """
    return 1 - 2 * (1 - confidence) / max(conditions, 1)


def evaluate_gate(condition: Condition, effect: Effect | None, gate: Gate) -> GateResult:
    """Tests a condition by an effect, whose interval has two one-sided bounds."""
    answer: _Answer = "can't tell"
    if effect is not None and effect.ratio.low is not None and effect.ratio.high is not None:
        least, most = effect.ratio.low - 1, effect.ratio.high - 1
        if not condition.above:
            least, most = -most, -least
        answer = _ANSWERS[keeps_within(least, most, abs(condition.margin))]
    return GateResult(condition, effect, answer, _fails(answer, gate))


def evaluate_failures(
    condition: Condition, failures: Failures, gate: Gate, confidence: float
) -> GateResult:
    """Tests a condition on a time that is beyond any bound on a side.

    It is worse, or not worse, where one side alone is beyond any bound and its share of failures is
    surely larger; ``confidence`` is that of the interval with two one-sided bounds.
    """
    level = (1 - confidence) / 2
    answer: _Answer = "can't tell"
    if failures.candidate_beyond and not failures.baseline_beyond and failures.rise < level:
        answer = "worse"
    if failures.baseline_beyond and not failures.candidate_beyond and 1 - failures.rise < level:
        answer = "not worse"
    return GateResult(condition, None, answer, _fails(answer, gate), failures)


def _fails(answer: _Answer, gate: Gate) -> bool:
    return answer == "worse" or (answer == "can't tell" and gate.if_unknown == "fail")
