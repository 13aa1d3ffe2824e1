"""Tests of drift and mix, with planted and without deviations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kvmark.stats import drift, mix_test, rise_of_share


def noise(n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(100, 2, n)


def test_a_linear_increase_is_found_with_its_size() -> None:
    found = drift((noise(40, 1) + np.linspace(-10, 10, 40)).tolist())
    assert found.change == pytest.approx(0.2, abs=0.03)
    assert found.p_value < 1e-6


def test_noise_is_rarely_a_drift_and_a_single_stall_is_none() -> None:
    alarms = sum(drift(noise(30, seed).tolist()).p_value < 0.01 for seed in range(500))
    assert alarms / 500 < 0.03
    series = noise(40, 2)
    series[20] = 0
    assert abs(drift(series.tolist()).change) < 0.03


def test_the_slope_is_scipys_theil_sen_slope() -> None:
    series = noise(25, 3)
    slope = stats.theilslopes(series).slope
    expected = slope * 24 / np.median(series)
    assert drift(series.tolist()).change == pytest.approx(expected)


def test_without_correlation_the_test_is_the_textbook_one() -> None:
    series = [float(value) for value in [3, 1, 4, 2, 6, 5, 8, 7, 9, 10, 12, 11]]
    pairs = [(a, b) for a in range(12) for b in range(a + 1, 12)]
    score = sum(1 if series[b] > series[a] else -1 for a, b in pairs)
    z = (score - 1) / (12 * 11 * 29 / 18) ** 0.5
    assert drift(series).p_value == pytest.approx(2 * stats.norm.sf(z))


def test_a_long_series_keeps_its_drift_and_a_constant_one_has_none() -> None:
    series = np.random.default_rng(4).normal(1000, 5, 20_000) + np.linspace(0, 300, 20_000)
    assert drift(series.tolist()).change == pytest.approx(0.26, abs=0.02)
    constant = drift([5.0] * 12)
    assert (constant.change, constant.p_value) == (0.0, 1.0)
    with pytest.raises(ValueError, match="at least four"):
        drift([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("counts", "weights", "p_value"),
    [
        ([480, 320, 200], [5, 3, 2], stats.chisquare([480, 320, 200], [500, 300, 200]).pvalue),
        # A kind that should not occur is never chance; a single kind always fits.
        ([999, 1], [1, 0], 0.0),
        ([1000], [0.5], 1.0),
    ],
)
def test_a_mix_is_tested_as_scipy_does(
    counts: list[int], weights: list[float], p_value: float
) -> None:
    assert mix_test(counts, weights).p_value == pytest.approx(p_value)


def test_a_mix_has_its_largest_deviation_and_an_empty_one_is_rejected() -> None:
    assert mix_test([480, 320, 200], [5, 3, 2]).deviation == pytest.approx(0.02)
    with pytest.raises(ValueError, match="something counted"):
        mix_test([0, 0], [1, 1])


def test_equal_shares_are_significant_as_often_as_the_level_allows() -> None:
    chance, alone, repeated = np.random.default_rng(3), 0, 0
    for _ in range(1000):
        one, other = ([(int(n), 2000) for n in chance.binomial(2000, 0.02, 4)] for _ in range(2))
        alone += rise_of_share(one[:1], other[:1]) < 0.05
        repeated += rise_of_share(one, other) < 0.05
    # Three deviations of a binomial count around 50.
    assert 29 <= alone <= 71
    assert repeated <= 71


def test_an_increased_share_is_found() -> None:
    low, high = [(0, 1000), (2, 1000), (1, 1000)], [(30, 1000), (28, 1000), (35, 1000)]
    assert rise_of_share(low, high) < 0.001
    assert rise_of_share(high, low) > 0.999
    assert rise_of_share([(0, 10)], [(0, 10)]) == 0.5
    # Equal totals aren't significant if runs scatter far more than by chance.
    assert rise_of_share([(0, 1000), (60, 1000)], [(0, 1000), (90, 1000)]) > 0.05
    with pytest.raises(ValueError, match="observations on both sides"):
        rise_of_share([], low)
