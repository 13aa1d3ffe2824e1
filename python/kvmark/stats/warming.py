"""Warm-up: the gain of speed after a start, or from one measurement to the next."""

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
"""The largest share of one case in the evidence."""

_TWO_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """A value above 0 with its case, its repetition, and its place after a start, from 1."""

    case: str
    repetition: int
    place: int
    value: float


def warming(values: Sequence[Placed]) -> Estimate | None:
    """The log-ratio of the first value after a start to a later one.

    The effect is assumed to halve with each place: log value = case + repetition + effect ·
    2^(1 - place), by least squares. An effect of -0.7 halves the first value. The interval allows
    for values of unequal scatter (HC3: J. G. MacKinnon, H. White, Journal of Econometrics 29,
    1985).

    Returns:
        The effect; none if the places of the cases are too similar, or one case dominates.
    """
    cases = [one.case for one in values]
    known = [one for one in values if cases.count(one.case) > 1]
    if not known:
        return None
    basis, sizes, _ = np.linalg.svd(_indicators(known), full_matrices=False)
    basis = basis[:, sizes > sizes[0] * 1e-9]
    x = _without(basis, [2.0 ** (1 - one.place) for one in known])
    y = _without(basis, [math.log(one.value) for one in known])
    freedom, weight = len(known) - basis.shape[1] - 1, float(x @ x)
    in_case = np.array([[one.case == case for one in known] for case in set(cases)])
    is_dominated = float((in_case @ x**2).max()) > _LARGEST_PART * weight
    if freedom < _LEAST_FREEDOM or weight < _LEAST_WEIGHT or is_dominated:
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


def warmup_gain(speeds: Sequence[float]) -> float | None:
    """The gain of the last two values over the best two neighbours before, as a share of means.

    Args:
        speeds: above 0, in order.

    Returns:
        Negative if they were faster before; none for fewer than four values.
    """
    pairs = [one + next_one for one, next_one in pairwise(speeds)]
    # The last pair but one shares a value with the last.
    return pairs[-1] / max(pairs[:-2]) - 1 if len(speeds) >= _TWO_PAIRS else None
