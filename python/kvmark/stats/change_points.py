"""Change points of a history.

E-divisive (Matteson and James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data, 2014): the history is cut where the two sides differ most by the energy
statistic, and again within the segments, as long as the cut is significant in a permutation test.
It assumes no distribution of the noise, which in histories of benchmarks has outliers.

The test of a short segment counts all permutations. The least p-value of n points is
2 ÷ C(n, n/2), so that fewer than `least_points` show no change, however large it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from kvmark.stats.estimate import t_quantile

#: The least number of points of a level: with fewer, a single outlier would be one.
LEAST_POINTS = 3
#: The largest p-value of a cut.
ERROR_LEVEL = 0.01
#: The share of changes of the detectable size that are found.
POWER = 0.8

_PERMUTATIONS = 499
# The permutations of 16 points are counted by their 65,536 subsets.
_MOST_COUNTED = 16
# The relative rounding error between sums of the same numbers in another order.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """``index`` is the first point of the new level; ``ratio`` is new ÷ old median."""

    index: int
    ratio: float
    p_value: float


def change_points(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """The change points in order. Values are compared on a logarithmic scale.

    Each cut is tested at the error level by all permutations or by seeded ones, so that the same
    history always gives the same answer.

    Raises:
        ValueError: a value isn't above 0.
    """
    series = _above_zero(values)
    found = list(_cuts(np.log(series), np.random.default_rng(1)))
    if not found:
        return ()
    levels = np.split(series, [cut for cut, _ in found])
    medians = [float(np.median(level)) for level in levels]
    return tuple(
        ChangePoint(cut, medians[place + 1] / medians[place], p_value)
        for place, (cut, p_value) in enumerate(found)
    )


def least_points() -> int:
    """The least number of points that can show a change, however large it is."""
    return next(n for n in count(2 * LEAST_POINTS) if 2 / math.comb(n, n // 2) <= ERROR_LEVEL)


def could_be_seen(values: Sequence[float], changes: Sequence[int] = ()) -> float | None:
    """The smallest change in the middle that 8 of 10 histories with this scatter would show.

    It is a share of the level before. The scatter is that around the levels between ``changes``.
    None with too few points for any change.

    A change counts as detected if Student's t of both halves detects it at the error level divided
    by the number of points, because its place is unknown.

    Raises:
        ValueError: a value isn't above 0.
    """
    series = _above_zero(values)
    n = len(series)
    if n < least_points():
        return None
    pieces = np.split(np.log(series), list(changes))
    freedom = n - len(pieces) - 1
    if freedom < 1:
        return None
    spread = (sum(float(((one - one.mean()) ** 2).sum()) for one in pieces) / freedom) ** 0.5
    reach = t_quantile(freedom, 1 - ERROR_LEVEL / n / 2) + t_quantile(freedom, POWER)
    return math.expm1(min(reach * spread * 2 / n**0.5, 700.0))


def _above_zero(values: Sequence[float]) -> NDArray[np.float64]:
    series = np.asarray(values, dtype=np.float64)
    if not bool(np.all(series > 0)):
        raise ValueError("a change of level needs values above 0")
    return series


def _cuts(piece: NDArray[np.float64], chance: np.random.Generator) -> Iterator[tuple[int, float]]:
    """The cuts within a segment in order, with their p-values."""
    if len(piece) < least_points():
        return
    distances = np.abs(piece[:, None] - piece[None, :])
    place, statistic = _best_cut(distances)
    if statistic <= 0:
        return
    p_value = _p_value(distances, statistic, chance)
    if p_value > ERROR_LEVEL:
        return
    yield from _cuts(piece[:place], chance)
    yield place, p_value
    for cut, later_p_value in _cuts(piece[place:], chance):
        yield place + cut, later_p_value


def _p_value(
    distances: NDArray[np.float64], statistic: float, chance: np.random.Generator
) -> float:
    """The share of permutations, all or random ones, with at least this statistic."""
    n, reached = len(distances), statistic * (1 - _ROUNDING)
    if n <= _MOST_COUNTED:
        return _share_of_orders(_energies(distances), n, reached)
    beaten = 0
    for _ in range(_PERMUTATIONS):
        order = chance.permutation(n)
        beaten += _best_cut(distances[np.ix_(order, order)])[1] >= reached
    return (beaten + 1) / (_PERMUTATIONS + 1)


def _energies(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The energy statistic between each subset of the points, a bit mask, and the rest."""
    n = len(distances)
    bits = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    within = (bits @ distances * bits).sum(axis=1)
    across = bits @ distances.sum(axis=1) - within
    left = bits.sum(axis=1)
    return _statistic(within, distances.sum() - within - 2 * across, across, left, n - left)


def _share_of_orders(energies: NDArray[np.float64], n: int, reached: float) -> float:
    """The share of permutations in which a cut reaches a statistic.

    A permutation is a path from the empty set to the whole set, a point at a time. Counted are the
    paths without a set that reaches the statistic, from the counts of sets with one point less.
    """
    subsets = np.arange(1 << n)
    sizes = np.bitwise_count(subsets)
    can_be_cut = (sizes >= LEAST_POINTS) & (sizes <= n - LEAST_POINTS)
    open_sets = ~(can_be_cut & (energies >= reached))
    ways = np.zeros(1 << n)
    ways[0] = 1.0
    for size in range(1, n + 1):
        these = subsets[(sizes == size) & open_sets]
        for bit in range(n):
            having = these[(these >> bit) & 1 == 1]
            ways[having] += ways[having ^ (1 << bit)]
    return 1.0 - float(ways[-1]) / math.factorial(n)


def _best_cut(distances: NDArray[np.float64]) -> tuple[int, float]:
    """The cut with the largest energy statistic between its sides, and that statistic."""
    n = len(distances)
    places = np.arange(LEAST_POINTS, n - LEAST_POINTS + 1)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    left, right = places.astype(np.float64), (n - places).astype(np.float64)
    within_left = sums[places, places]
    across = sums[places, n] - within_left
    within_right = sums[n, n] - 2 * across - within_left
    statistics = _statistic(within_left, within_right, across, left, right)
    best = int(np.argmax(statistics))
    return int(places[best]), float(statistics[best])


def _statistic(
    within_left: NDArray[np.float64],
    within_right: NDArray[np.float64],
    across: NDArray[np.float64],
    left: NDArray[np.float64],
    right: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The energy statistic from the sums of distances and the numbers of points."""
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = 2 * across / (left * right) - within_left / left**2 - within_right / right**2
        statistic: NDArray[np.float64] = energy * left * right / (left + right)
    return statistic
