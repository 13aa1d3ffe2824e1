"""Whether speed rises: soon after a start, or from one measurement to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from kvmark.stats.estimate import CONFIDENCE, Estimate

_LEAST_FREEDOM = 5
_LEAST_WEIGHT = 0.25
_LARGEST_PART = 0.5
"""No effect is told that rests on one case."""

_TWO_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """A value above 0 with its case, its repetition, and its place after a start, from 1."""

    case: str
    repetition: int
    place: int
    value: float


def warming(values: Sequence[Placed]) -> Estimate | None:
    """By how much more than a later one the first value after a start is, in logarithms.

    What a start costs is taken to be half as much in each place as in the one before: log value =
    case + repetition + effect · 2^(1 - place), by least squares. An effect of -0.7 is half of what
    would be measured later. The interval takes account of values that scatter more than others
    (HC3: J. G. MacKinnon, H. White, Journal of Econometrics 29, 1985).

    Returns:
        The effect; none where the places of cases are too much alike to tell, or one case decides.
    """
    cases = [one.case for one in values]
    known = [one for one in values if cases.count(one.case) > 1]
    if not known:
        return None
    others = _indicators(known)
    basis, sizes, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, sizes > sizes[0] * 1e-9]
    x = _without(basis, [2.0 ** (1 - one.place) for one in known])
    y = _without(basis, [math.log(one.value) for one in known])
    freedom, weight = len(known) - basis.shape[1] - 1, float(x @ x)
    if (
        freedom < _LEAST_FREEDOM
        or weight < _LEAST_WEIGHT
        or _largest_part(known, x) > _LARGEST_PART * weight
    ):
        return None
    effect = float(x @ y) / weight
    leverage = (basis**2).sum(axis=1) + x**2 / weight
    left = (y - effect * x) / np.maximum(1 - leverage, 1e-9)
    error = math.sqrt(float((x**2) @ (left**2))) / weight
    wide = error * float(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))
    method = "least squares within cases and repetitions, HC3"
    return Estimate(effect, effect - wide, effect + wide, len(known), "", method)


def _indicators(values: Sequence[Placed]) -> NDArray[np.float64]:
    """A column for each case and each repetition."""
    columns = [
        [float(own == name) for own in owns]
        for owns in ([one.case for one in values], [str(one.repetition) for one in values])
        for name in dict.fromkeys(owns)
    ]
    return np.array(columns).T


def _without(basis: NDArray[np.float64], values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    return array - basis @ (basis.T @ array)


def _largest_part(values: Sequence[Placed], x: NDArray[np.float64]) -> float:
    """The largest sum of squares that is one case's."""
    parts: dict[str, float] = {}
    for one, each in zip(values, x, strict=True):
        parts[one.case] = parts.get(one.case, 0.0) + float(each) ** 2
    return max(parts.values())


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
