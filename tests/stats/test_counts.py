"""Quantiles of counts against sorted samples, and their resolution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.stats import Counts, least_observations

values = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(values, st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]))
def test_a_quantile_is_the_order_statistic(samples: list[int], q: float) -> None:
    rank = max(1, math.ceil(round(q * len(samples), 9)))
    assert Counts.of(samples).quantile(q) == sorted(samples)[rank - 1]


@given(st.lists(values, min_size=1, max_size=5))
def test_merging_counts_is_counting_together(parts: list[list[int]]) -> None:
    merged = Counts.merge(Counts.of(part) for part in parts)
    together = Counts.of([value for part in parts for value in part])
    for column in ("low", "high", "count"):
        assert np.array_equal(getattr(merged, column), getattr(together, column))


def test_rounding_does_not_shift_the_rank_of_a_quantile() -> None:
    # 0.07 * 100 is 7.000000000000001 in binary.
    assert Counts.of(range(1, 101)).quantile(0.07) == 7


def test_a_mean_takes_the_middle_of_each_range_and_nothing_has_none() -> None:
    counts = Counts(np.array([0, 10]), np.array([2, 14]), np.array([3, 1]))
    assert counts.mean() == pytest.approx((3 * 1 + 12) / 4)
    empty = Counts.merge([])
    assert (empty.n, empty.quantile(0.5), empty.mean(), empty.resolution(0.5)) == (0, None, None, 0)


@pytest.mark.parametrize(
    ("q", "n"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000), (1.0, 1)]
)
def test_a_shown_quantile_has_ten_observations_beyond_it(q: float, n: int) -> None:
    assert least_observations(q) == n
    assert Counts.of(range(n)).shows(q)
    assert n == 1 or not Counts.of(range(n - 1)).shows(q)


@pytest.mark.parametrize(
    ("q", "step", "resolution"),
    [(0.05, 0.0, 1 / 101), (0.5, 0.0, 4 / 1007), (0.5, 25.0, 25 / 1007)],
)
def test_the_resolution_is_half_a_range_or_a_step(q: float, step: float, resolution: float) -> None:
    counts = Counts(np.array([100, 1000]), np.array([101, 1007]), np.array([9, 91]))
    assert counts.resolution(q, step) == pytest.approx(resolution)
