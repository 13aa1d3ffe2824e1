"""Whether a speed that was measured again and again still rises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["rise"]

_TWO_PAIRS = 4


def rise(speeds: Sequence[float]) -> float | None:
    """How far the mean of the last two values is above the best mean of two neighbours before.

    One that is lower says nothing of whether it gets warm.

    Args:
        speeds: above 0, in their order.

    Returns:
        A share, negative where they were faster before; none for fewer than four values.
    """
    pairs = [one + next_one for one, next_one in pairwise(speeds)]
    # The last pair but one shares a value with the last.
    return pairs[-1] / max(pairs[:-2]) - 1 if len(speeds) >= _TWO_PAIRS else None
