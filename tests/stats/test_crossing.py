"""Where a line crosses zero, against closed forms and simulated coverage."""

import math

import numpy as np
import pytest

from kvmark.stats import crossing


def test_an_exact_line_crosses_where_it_does() -> None:
    found = crossing([1, 2, 3, 4], [-3, -1, 1, 3], "x")
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2.5, 2.5, 2.5))


def test_fiellers_interval_holds_the_truth_as_often_as_it_says() -> None:
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


def test_a_slope_that_may_be_0_leaves_the_interval_without_ends() -> None:
    found = crossing([0, 0, 1, 1], [-1, 1, -0.9, 1.1], "x")
    assert found is not None
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [3, 2, 1]), ([1, 1, 1], [-1, 0, 1]), ([1], [0])])
def test_without_a_rise_there_is_no_crossing(x: list[float], y: list[float]) -> None:
    assert crossing(x, y, "x") is None


def test_two_samples_have_no_interval() -> None:
    found = crossing([1, 2], [-1, 1], "x")
    assert found is not None
    assert (found.value, found.low, found.high) == (1.5, None, None)
