"""What the runs near a capacity say of it together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kvmark.experiment.designs.capacity.search import Capacity, RateRun
from kvmark.spec.objective import Objective
from kvmark.stats import Estimate, crossing

__all__ = ["estimated"]

_NEAR: Final = 1.5
"""Runs so many steps beyond either end still count: a line describes no more than that."""


def estimated(capacity: Capacity, objectives: Sequence[Objective]) -> Estimate | None:
    """The capacity in ops/s; none where there is none.

    The logarithm of the worst figure over its bound rises with that of the rate, and where a line
    through the runs near the ends crosses 0 the objective is just met. Where the rate itself was
    not carried, or the line's slope may be 0, it is the highest rate that held: both ends of the
    search enclose the capacity, and say nothing of how surely.
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
    """The logarithm of the worst figure over its bound; none where figures aren't the reason."""
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
