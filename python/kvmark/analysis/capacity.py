"""The result of a search for capacity, and the capacity that its runs give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvmark.spec.metric import Objective
from kvmark.stats import Estimate, crossing

Outcome = Literal["holds", "missed", "generator", "too few"]
"""The objective held; it was missed; the generator, not the system, was the limit; there were too
few operations."""
Stage = Literal["bracket", "bisect", "confirm"]
Found = Literal["found", "nowhere", "generator", "clients", "open"]
"""An interval; no rate holds; the generator or the number of clients is the limit; no rate was
missed."""

_NEAR: Final = 1.5
"""Steps beyond either end within which runs count for the fitted line."""


@dataclass(frozen=True, slots=True)
class RateRun:
    """The result of a run, or of several runs, at a rate."""

    #: Operations per second offered.
    rate: float
    stage: Stage
    run: str
    outcome: Outcome
    #: Sentences with the reasons for another outcome than "holds".
    reasons: tuple[str, ...]
    #: Each objective's figure by its text: nanoseconds, a share, or ops/s; none where unknown.
    figures: Mapping[str, float | None]
    #: Successful operations per second.
    throughput: float
    notes: tuple[str, ...] = ()
    #: The limit of operations in flight, and whether enough operations waited for it to explain a
    #: missed objective.
    clients: int = 0
    held_back: bool = False

    @property
    def holds(self) -> bool:
        """Whether every objective held and nothing was dropped."""
        return self.outcome == "holds"


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of a search. Rates are operations per second."""

    found: Found
    #: The highest rate that holds.
    low: float | None
    #: The next rate, which is missed.
    high: float | None
    #: The reason for a missing end.
    reason: str
    runs: tuple[RateRun, ...]
    #: The limit of operations in flight at the ends.
    clients: int


def estimated(capacity: Capacity, objectives: Sequence[Objective]) -> Estimate | None:
    """The capacity in ops/s; none where there is none.

    The logarithm of the worst figure over its bound rises with that of the rate, and the objective
    is just met where a line through the runs near the ends crosses 0. Where the rate itself was not
    carried, or the line's slope may be 0, it is the highest rate that held, without an interval.
    """
    low, high = capacity.low, capacity.high
    if low is None or high is None:
        return None
    step = (high / low) ** _NEAR
    same = [one for one in capacity.runs if one.clients == capacity.clients]
    near = [one for one in same if low / step <= one.rate <= high * step]
    held = Estimate.alone(low, "ops/s", "highest rate that held", len(near))
    over = [_over(one, objectives) for one in near]
    known = [(math.log(one.rate), y) for one, y in zip(near, over, strict=True) if y is not None]
    if len(known) < len(near):
        return held
    found = crossing([x for x, _ in known], [y for _, y in known], "ops/s")
    if found is None or found.low is None or found.high is None:
        return held
    if not low / step <= math.exp(found.value) <= high * step:
        return held
    return found.put(math.exp, "ops/s")


def _over(one: RateRun, objectives: Sequence[Objective]) -> float | None:
    """Logarithm of the worst figure over its bound; None where a missed rate has another reason."""
    ratios = []
    for objective in objectives:
        value = one.figures.get(objective.text)
        if value is None:
            return None
        if value > 0 and objective.bound > 0:
            ratio = math.log(value / objective.bound)
            ratios.append(-ratio if objective.measure == "throughput" else ratio)
    worst = max(ratios, default=None)
    if worst is None or (worst < 0 and not one.holds):
        return None
    return worst
