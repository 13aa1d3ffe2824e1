"""Whether what is measured soon after a start is slower than what is measured later."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kvmark.stats.estimate import CONFIDENCE, Estimate

_LEAST_FREEDOM = 5


def warming(cases: Sequence[Sequence[tuple[int, float]]]) -> Estimate | None:
    """By how much more than a later one the first value after a start is, in logarithms.

    What a start costs is taken to be half as much in each place as in the one before. Values of one
    case are compared among themselves alone: log value = case + effect · 2^(1 - place), by least
    squares, with a t-interval. An effect of -0.7 is half of what would be measured later.

    Args:
        cases: for each case its values, above 0, with their places after a start, from 1.

    Returns:
        The effect; none where the cases' places are too much alike to tell.
    """
    known = [case for case in cases if len({place for place, _ in case}) > 1]
    if not known:
        return None
    x = _joined([[2.0 ** (1 - place) for place, _ in case] for case in known])
    y = _joined([[math.log(value) for _, value in case] for case in known])
    freedom, weight = len(x) - len(known) - 1, float(x @ x)
    if freedom < _LEAST_FREEDOM or weight == 0:
        return None
    effect = float(x @ y) / weight
    left = y - effect * x
    error = math.sqrt(float(left @ left) / freedom / weight)
    wide = error * float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))
    method = "least squares within cases, t-interval"
    return Estimate(effect, effect - wide, effect + wide, len(x), "", method)


def _joined(cases: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """All values, each less the mean of its case."""
    arrays = [np.asarray(case, dtype=np.float64) for case in cases]
    return np.concatenate([array - array.mean() for array in arrays])
