"""Quantiles of counts against sorted samples, and their intervals against coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvmark.stats import Counts, least_observations, rank_interval

values = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(values, st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]))
def test_a_quantile_is_the_order_statistic(samples: list[int], q: float) -> None:
    rank = max(1, math.ceil(round(q * len(samples), 9)))
    assert Counts.of(samples).quantile(q) == sorted(samples)[rank - 1]


@given(st.lists(values, min_size=1, max_size=5))
def test_merging_counts_is_counting_together(parts: list[list[int]]) -> None:
    merged = Counts.merge(Counts.of(part) for part in parts)
    together = Counts.of([value for part in parts for value in part])
    assert merged.n == together.n
    assert np.array_equal(merged.low, together.low)
    assert np.array_equal(merged.count, together.count)


def test_a_quantile_does_not_slip_a_rank_by_rounding() -> None:
    # 0.07 * 100 is 7.000000000000001 in binary.
    assert Counts.of(range(1, 101)).quantile(0.07) == 7


def test_merged_quantiles_are_not_averages_of_quantiles() -> None:
    fast, slow = Counts.of([1] * 99), Counts.of([1000])
    merged = Counts.merge([fast, slow])
    assert merged.quantile(0.5) == 1
    assert merged.quantile(1.0) == 1000


def test_no_observation_gives_no_quantile_and_no_mean() -> None:
    empty = Counts.merge([])
    assert (empty.n, empty.quantile(0.5), empty.mean()) == (0, None, None)
    assert empty.quantile_interval(0.5, "ns") is None


def test_a_mean_takes_the_middle_of_each_range() -> None:
    counts = Counts(np.array([0, 10]), np.array([2, 14]), np.array([3, 1]))
    assert counts.mean() == pytest.approx((3 * 1 + 12) / 4)


@pytest.mark.parametrize(
    ("q", "n"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000), (1.0, 1)]
)
def test_ten_observations_lie_beyond_a_quantile_that_is_shown(q: float, n: int) -> None:
    assert least_observations(q) == n
    assert Counts.of(range(n)).shows(q)
    assert n == 1 or not Counts.of(range(n - 1)).shows(q)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_rank_intervals_hold_their_coverage_exactly(q: float) -> None:
    n = 1500
    lower, upper = rank_interval(n, q, 0.95)
    assert lower is not None
    assert upper is not None
    # The quantile lies between the ranks when at least `lower` and fewer than `upper` are below.
    coverage = stats.binom.cdf(upper - 1, n, q) - stats.binom.cdf(lower - 1, n, q)
    assert 0.95 <= coverage < 0.97


def test_a_tail_without_observations_has_no_upper_bound() -> None:
    lower, upper = rank_interval(50, 0.99, 0.95)
    assert lower is not None
    assert upper is None


def test_quantile_intervals_cover_the_true_quantile() -> None:
    random = np.random.default_rng(8)
    truth = -math.log(0.05) * 1e6
    hits = 0
    for _ in range(500):
        sample = Counts.of(random.exponential(1e6, 1000).astype(np.int64))
        estimate = sample.quantile_interval(0.95, "ns")
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= truth <= estimate.high
    assert 0.92 < hits / 500 <= 1
