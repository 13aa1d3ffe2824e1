"""Where the level of a history moved.

E-divisive (Matteson and James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data, 2014): the history is cut where the two sides differ most by the energy
statistic, and again within the pieces, as long as a permutation test says that chance doesn't
explain the cut. It asks for no law of the noise, which in histories of benchmarks has outliers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: A level needs so many points: with fewer a single outlier is one.
LEAST_POINTS = 3
#: A cut stands when chance gives such a one less often.
ERROR_LEVEL = 0.01

_PERMUTATIONS = 499


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """``index`` is the first point of the new level; ``ratio`` is new ÷ old median."""

    index: int
    ratio: float
    p_value: float


def change_points(
    values: Sequence[float], *, error_level: float = ERROR_LEVEL, seed: int = 1
) -> tuple[ChangePoint, ...]:
    """The places where the level moved, in order. Values are compared on a logarithmic scale.

    Each cut is tested at ``error_level`` by the same seeded permutations, so that a history gives
    the same answer whenever it is asked.

    Raises:
        ValueError: a value isn't above 0.
    """
    series = np.asarray(values, dtype=np.float64)
    if not bool(np.all(series > 0)):
        raise ValueError("a change of level needs values above 0")
    if len(series) < 2 * LEAST_POINTS:
        return ()
    logs = np.log(series)
    found = sorted(_cuts(logs, 0, len(logs), error_level, np.random.default_rng(seed)))
    edges = [0, *(cut for cut, _ in found), len(series)]
    medians = [float(np.median(series[start:end])) for start, end in pairwise(edges)]
    return tuple(
        ChangePoint(cut, medians[place + 1] / medians[place], p_value)
        for place, (cut, p_value) in enumerate(found)
    )


def _cuts(
    logs: NDArray[np.float64],
    start: int,
    end: int,
    error_level: float,
    chance: np.random.Generator,
) -> Iterator[tuple[int, float]]:
    """The cuts within a piece, with their p-values."""
    piece = logs[start:end]
    if len(piece) < 2 * LEAST_POINTS:
        return
    distances = np.abs(piece[:, None] - piece[None, :])
    place, statistic = _best_cut(distances)
    beaten = 0
    for _ in range(_PERMUTATIONS):
        order = chance.permutation(len(piece))
        beaten += _best_cut(distances[np.ix_(order, order)])[1] >= statistic
    p_value = (beaten + 1) / (_PERMUTATIONS + 1)
    if statistic <= 0 or p_value > error_level:
        return
    yield from _cuts(logs, start, start + place, error_level, chance)
    yield start + place, p_value
    yield from _cuts(logs, start + place, end, error_level, chance)


def _best_cut(distances: NDArray[np.float64]) -> tuple[int, float]:
    """The place with the largest energy statistic between the sides, and that statistic."""
    n = len(distances)
    places = np.arange(LEAST_POINTS, n - LEAST_POINTS + 1)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    left, right = places.astype(np.float64), (n - places).astype(np.float64)
    within_left = sums[places, places]
    across = sums[places, n] - within_left
    within_right = sums[n, n] - 2 * across - within_left
    energy = 2 * across / (left * right) - within_left / left**2 - within_right / right**2
    statistics = energy * left * right / n
    best = int(np.argmax(statistics))
    return int(places[best]), float(statistics[best])
