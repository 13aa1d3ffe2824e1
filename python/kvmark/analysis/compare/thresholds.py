"""Whether a comparison goes beyond a condition: the interval of its change against the margin.

A side of which too many operations have no answer has no finite figure of a time, and no ratio.
What can be compared then is the share of the operations without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvmark.analysis.compare.metrics import counts_of
from kvmark.analysis.summary.aggregate import unanswered_of
from kvmark.records import Run
from kvmark.spec.metric import Metric
from kvmark.spec.objective import Condition, Gate
from kvmark.stats import BEYOND, Counts, Effect, keeps_within, rise_of_share

_Answer = Literal["worse", "not worse", "can't tell"]
"""The change is surely beyond the margin; it surely isn't; its interval holds the margin, or it has
none."""
_ANSWERS: Final[Mapping[bool | None, _Answer]] = {
    True: "not worse", False: "worse", None: "can't tell",
}  # fmt: skip


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
    sides = [counts_of(side, metric, due=True) for side in (baseline, candidate)]
    beyond = [_is_beyond(Counts.merge(side), metric) for side in sides]
    if not any(beyond) or not all(any(one.n for one in side) for side in sides):
        return None
    samples = [
        [(unanswered_of(run, metric.operation), one.n) for run, one in zip(runs, side, strict=True)]
        for runs, side in zip((baseline, candidate), sides, strict=True)
    ]
    before, after = (sum(lost for lost, _ in side) / sum(n for _, n in side) for side in samples)
    return Failures(before, after, beyond[0], beyond[1], rise_of_share(*samples))


def _is_beyond(counts: Counts, metric: Metric) -> bool:
    q = 1.0 if metric.quantile is None else metric.q
    return counts.shows(q) and counts.quantile(q) == BEYOND


@dataclass(frozen=True, slots=True)
class Held:
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


def hold(condition: Condition, effect: Effect | None, gate: Gate) -> Held:
    """Tests a condition by an effect, whose interval has two one-sided bounds."""
    answer = _answer(condition, effect)
    return Held(condition, effect, answer, _fails(answer, gate))


def hold_failures(condition: Condition, failures: Failures, gate: Gate, confidence: float) -> Held:
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
    return Held(condition, None, answer, _fails(answer, gate), failures)


def _fails(answer: _Answer, gate: Gate) -> bool:
    return answer == "worse" or (answer == "can't tell" and gate.if_unknown == "fail")


def _answer(condition: Condition, effect: Effect | None) -> _Answer:
    if effect is None or effect.ratio.low is None or effect.ratio.high is None:
        return "can't tell"
    least, most = effect.ratio.low - 1, effect.ratio.high - 1
    if not condition.above:
        least, most = -most, -least
    within = keeps_within(least, most, abs(condition.margin))
    return _ANSWERS[within]
