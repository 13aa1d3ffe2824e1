"""Zipfian choices: what falls on the most popular item, and the law that fits counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SUMMED = 100_000
_LARGEST_THETA: Final = 4.0
_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class ZipfFit:
    """Items whose weights fall as rank^-theta."""

    theta: float
    off: float
    """The largest difference between the shares of the first items, law and counts, at any rank
    (Kolmogorov and Smirnov's distance)."""


def fit_zipf(counts: Sequence[int], sampled: float = 1.0) -> ZipfFit | None:
    """The zipfian law under which counts, most first, are likeliest; None of fewer than two items.

    Of a sample of the items, `sampled` is its share, and the ranks are as many times as far apart.
    """
    if len(counts) < 2 or counts[0] == 0:
        return None
    weights = np.asarray(counts, dtype=np.float64)
    ranks = np.maximum(1.0, np.arange(1, len(counts) + 1) / sampled)
    logs, total = float(np.sum(weights * np.log(ranks))), float(weights.sum())
    low, high = 0.0, _LARGEST_THETA
    for _ in range(_STEPS):
        # The likelihood has one top.
        left, right = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = (
            -theta * logs - total * np.log(_generalised_harmonic(ranks[-1:], theta)[0])
            for theta in (left, right)
        )
        low, high = (left, high) if at_left < at_right else (low, right)
    theta = (low + high) / 2
    sums = _generalised_harmonic(ranks, theta)
    return ZipfFit(theta, float(np.max(np.abs(np.cumsum(weights) / total - sums / sums[-1]))))


def _generalised_harmonic(ranks: NDArray[np.float64], theta: float) -> NDArray[np.float64]:
    """The sums of 1, 2^-theta, …, rank^-theta."""
    summed = np.cumsum(np.arange(1, _SUMMED + 1, dtype=np.float64) ** -theta)
    first = float(_SUMMED)
    far = np.maximum(ranks, first)
    area = (
        np.log(far / first)
        if abs(theta - 1) < 1e-9
        else ((far ** (1 - theta) - first ** (1 - theta)) / (1 - theta))
    )
    beyond = summed[-1] + area + (far**-theta - first**-theta) / 2
    near = summed[np.minimum(ranks, first).astype(np.int64) - 1]
    return np.where(ranks <= first, near, beyond)


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
