"""How much of a zipfian choice falls on its most popular item."""

from __future__ import annotations

import numpy as np

__all__ = ["zipf_top_share"]

_SUMMED = 100_000


def zipf_top_share(count: int, theta: float) -> float:
    """The share of the first of `count` items whose weights are 1, 2^-theta, 3^-theta, ….

    The terms behind the first 100,000 are summed by Euler and Maclaurin's formula, whose error is
    far below a millionth.
    """
    if count < 1:
        return 0.0
    summed = min(count, _SUMMED)
    total = float(np.sum(np.arange(1, summed + 1, dtype=np.float64) ** -theta))
    if count > summed:
        first, last = float(summed), float(count)
        area = np.log(last / first) if theta == 1 else _power_area(first, last, theta)
        total += float(area) + (last**-theta - first**-theta) / 2
    return 1 / total


def _power_area(first: float, last: float, theta: float) -> float:
    return float(last ** (1 - theta) - first ** (1 - theta)) / (1 - theta)
