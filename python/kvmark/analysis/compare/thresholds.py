"""Whether a comparison goes beyond a condition: the interval of its change against the margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kvmark.analysis.compare.failures import Failures
from kvmark.spec.condition import Condition, Gate
from kvmark.stats import Effect, keeps_within

__all__ = ["Answer", "Held", "hold", "hold_failures", "one_sided"]

Answer = Literal["worse", "not worse", "can't tell"]
"""The change is surely beyond the margin; it surely isn't; its interval holds the margin, or it has
none."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a comparison says of a condition."""

    condition: Condition
    #: With the interval that the condition was tested by; none when the runs say nothing of it.
    effect: Effect | None
    answer: Answer
    #: Whether that ends a build.
    failed: bool
    #: Why there is no effect, where so many operations failed that a figure is beyond any bound.
    failures: Failures | None = None


def one_sided(confidence: float, conditions: int) -> float:
    """The coverage of an interval whose ends each are one-sided bounds of so much confidence.

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
    answer: Answer = "can't tell"
    if failures.candidate_beyond and not failures.baseline_beyond and failures.rise < level:
        answer = "worse"
    if failures.baseline_beyond and not failures.candidate_beyond and 1 - failures.rise < level:
        answer = "not worse"
    return Held(condition, None, answer, _fails(answer, gate), failures)


def _fails(answer: Answer, gate: Gate) -> bool:
    return answer == "worse" or (answer == "can't tell" and gate.if_unknown == "fail")


_ANSWERS: Final[Mapping[bool | None, Answer]] = {
    True: "not worse", False: "worse", None: "can't tell",
}  # fmt: skip


def _answer(condition: Condition, effect: Effect | None) -> Answer:
    if effect is None or effect.ratio.low is None or effect.ratio.high is None:
        return "can't tell"
    least, most = effect.ratio.low - 1, effect.ratio.high - 1
    if not condition.above:
        least, most = -most, -least
    within = keeps_within(least, most, abs(condition.margin))
    return _ANSWERS[within]
