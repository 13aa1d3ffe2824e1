"""Means and ratios against closed forms, SciPy and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvmark.stats import (
    Estimate,
    crossing,
    difference,
    level_of,
    mean_interval,
    paired_ratio,
)
from kvmark.stats.estimate import median_interval
from kvmark.stats.series import effective_sample_size


def autoregressive(n: int, phi: float, seed: int) -> list[float]:
    noise = np.random.default_rng(seed).normal(size=n)
    values = np.empty(n)
    values[0] = noise[0]
    for i in range(1, n):
        values[i] = phi * values[i - 1] + noise[i]
    return values.tolist()


def test_error_is_half_the_width_of_the_interval() -> None:
    estimate = Estimate(10.0, 8.0, 12.0, 5, "ms", "by hand")
    assert estimate.error == 2.0
    assert estimate.relative_error == 0.2
    assert Estimate(10.0, None, None, 1, "ms", "by hand").error is None


def test_a_mean_interval_is_scipys_t_interval() -> None:
    samples = np.random.default_rng(1).normal(50, 4, 20)
    expected = stats.t.interval(0.95, 19, samples.mean(), stats.sem(samples))
    estimate = mean_interval(samples.tolist(), "ms")
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    alone = mean_interval([3.0], "ms")
    assert (alone.value, alone.low, alone.high, alone.n) == (3.0, None, None, 1)
    with pytest.raises(ValueError, match="at least one sample"):
        mean_interval([], "ms")


positive = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=20))
def test_exchanging_the_sides_inverts_a_paired_ratio(pairs: list[tuple[float, float]]) -> None:
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    forth, back = (paired_ratio(*sides, floor=1e-4) for sides in ((before, after), (after, before)))
    assert forth.value == pytest.approx(1 / back.value)
    assert forth.low == pytest.approx(1 / back.high, rel=1e-6)


def test_pairing_removes_common_variation() -> None:
    random = np.random.default_rng(3)
    shared = np.exp(random.normal(0, 1, 12))
    before = (shared * 100).tolist()
    after = (shared * 110 * np.exp(random.normal(0, 0.01, 12))).tolist()
    paired, unpaired = (
        paired_ratio(before, after),
        difference(level_of(before), level_of(after)).ratio,
    )
    assert paired.value == pytest.approx(unpaired.value)
    assert paired.relative_error < unpaired.relative_error / 20
    assert paired.low > 1.05


def test_a_difference_of_levels_is_scipys_welch_interval_of_logs() -> None:
    random = np.random.default_rng(4)
    before, after = random.lognormal(1, 0.2, 9), random.lognormal(1.1, 0.4, 14)
    welch = stats.ttest_ind(np.log(after), np.log(before), equal_var=False)
    expected = np.exp(welch.confidence_interval(0.95))
    ratio = difference(level_of(before.tolist()), level_of(after.tolist())).ratio
    assert (ratio.low, ratio.high) == pytest.approx(tuple(expected))


def test_equal_samples_have_the_error_of_their_instrument() -> None:
    assert mean_interval([2.0, 2.0, 2.0], "ms", floor=0.1).error == pytest.approx(0.43, abs=0.001)
    ratio = paired_ratio([2.0, 2.0, 2.0], [4.0, 4.0, 4.0], floor=0.01)
    assert (ratio.low or 0) == pytest.approx(2 * math.exp(-0.043), rel=1e-3)
    assert paired_ratio([2.0, 2.0], [4.0, 4.0]).low is None


def test_ratios_reject_values_without_a_logarithm() -> None:
    with pytest.raises(ValueError, match="above 0"):
        paired_ratio([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="equal lengths"):
        paired_ratio([1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("series", "size", "tolerance"),
    [
        (np.random.default_rng(5).normal(size=5000).tolist(), 5000, 0.1),
        *[(autoregressive(40_000, phi, 6), 40_000 * (1 - phi) / (1 + phi), 0.12)
          for phi in (0.3, 0.6, 0.9)],
        # Negative correlation doesn't increase it.
        ([1.0, 2.0] * 50, 100, 0),
        ([4.0] * 30, 30, 0),
    ],
    ids=["independent", "0.3", "0.6", "0.9", "negative", "constant"],
)  # fmt: skip
def test_effective_sizes_are_closed_forms(
    series: list[float], size: float, tolerance: float
) -> None:
    assert effective_sample_size(series) == pytest.approx(size, rel=tolerance)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_an_effective_size_lies_between_one_and_the_length(series: list[float]) -> None:
    assert 1 <= effective_sample_size(series) <= len(series)


def test_a_transformed_estimate_has_ordered_bounds() -> None:
    lost = Estimate(0.9, 0.8, 0.95, 5, "ratio", "by hand").put(lambda left: (1 - left) * 100, "%")
    assert (lost.low, lost.value, lost.high) == pytest.approx((5.0, 10.0, 20.0))
    assert lost.unit == "%"
    assert Estimate.alone(3.0, "ms", "published").put(lambda ms: ms * 2, "ms").low is None


@pytest.mark.parametrize(
    ("n", "interval"), [(5, (None, None)), (6, (0, 5)), (8, (0, 7)), (10, (1, 8)), (20, (5, 14))]
)
def test_a_median_has_a_sign_test_interval(
    n: int, interval: tuple[float | None, float | None]
) -> None:
    found = median_interval([float(value) for value in range(n)][::-1], "ns")
    assert (found.low, found.high) == interval
    assert found.value == (n - 1) / 2
    assert median_interval([], "ns") is None


def test_fiellers_interval_has_the_stated_coverage() -> None:
    random = np.random.default_rng(5)
    x = np.repeat([0.0, 0.03], 4)
    held = []
    for _ in range(1_000):
        y = 3 * (x - 0.012) + random.normal(scale=0.02, size=len(x))
        found = crossing(x.tolist(), y.tolist(), "x")
        low = -math.inf if found is None or found.low is None else found.low
        high = math.inf if found is None or found.high is None else found.high
        held.append(low <= 0.012 <= high)
    assert 0.93 <= np.mean(held) <= 0.99


@pytest.mark.parametrize(
    ("x", "y", "found"),
    [
        ([1, 2, 3, 4], [-3, -1, 1, 3], (2.5, 2.5, 2.5)),
        # The slope may be 0; two samples don't show their scatter.
        ([0, 0, 1, 1], [-1, 1, -0.9, 1.1], (0.0, None, None)),
        ([1, 2], [-1, 1], (1.5, None, None)),
        # The line doesn't rise.
        ([1, 2, 3], [3, 2, 1], None),
        ([1, 1, 1], [-1, 0, 1], None),
        ([1], [0], None),
    ],
)
def test_only_a_line_that_certainly_rises_has_a_crossing_with_an_interval(
    x: list[float], y: list[float], found: tuple[float | None, ...] | None
) -> None:
    estimate = crossing(x, y, "x")
    known = None if estimate is None else (estimate.value, estimate.low, estimate.high)
    assert known == (None if found is None else pytest.approx(found, abs=1e-9))
