"""The error of quantiles of merged histograms."""

import math

import numpy as np
import pytest

from kvmark.stats import Counts, difference, jackknife, paired_jackknife

MEDIAN_NS = 50_000


def drawn(chance: np.random.Generator, count: int, shift: float = 0.0) -> Counts:
    """Lognormal times, in steps of a hundredth as a histogram has them."""
    logs = chance.normal(math.log(MEDIAN_NS) + shift, 0.5, count)
    return Counts.of(np.exp(np.round(logs, 2)).astype(np.int64))


def test_the_value_is_the_quantile_of_all_runs_together() -> None:
    chance = np.random.default_rng(1)
    parts = [drawn(chance, 500), drawn(chance, 5000)]
    found = jackknife(parts, 0.9)
    assert found is not None
    assert found.value == pytest.approx(Counts.merge(parts).quantile(0.9))


def test_runs_that_shift_give_an_interval_that_holds_the_truth_as_often_as_it_says() -> None:
    chance = np.random.default_rng(2)
    held = 0
    for _ in range(150):
        parts = [drawn(chance, 200, shift) for shift in chance.normal(0, 0.1, 8)]
        found = jackknife(parts, 0.5)
        assert found is not None
        estimate = found.estimate("ns")
        held += (estimate.low or 0) <= MEDIAN_NS <= (estimate.high or math.inf)
    # 95 % of 150, and three deviations of a binomial count.
    assert 134 <= held <= 150


def test_one_run_alone_has_a_quantile_and_no_error_between_runs() -> None:
    found = jackknife([drawn(np.random.default_rng(1), 100)], 0.5)
    assert found is not None
    assert found.spread is None
    assert jackknife([], 0.5) is None


def test_paired_runs_lose_the_shift_that_both_sides_of_a_block_share() -> None:
    chance = np.random.default_rng(4)
    shifts = chance.normal(0, 0.3, 10)
    base = [drawn(chance, 2000, shift) for shift in shifts]
    candidate = [drawn(chance, 2000, shift + 0.1) for shift in shifts]
    found = paired_jackknife(base, candidate, 0.5, 0.95)
    assert found is not None
    assert found.ratio.value == pytest.approx(math.exp(0.1), rel=0.03)
    assert found.significant()


def bucket(low: int, width: int, runs: int) -> list[Counts]:
    """Runs whose every time fell into one bucket."""
    one = Counts(np.array([low]), np.array([low + width - 1]), np.array([1000]))
    return [one] * runs


def test_runs_in_one_bucket_are_known_to_half_its_width_however_many_they_are() -> None:
    for runs in (2, 20):
        found = jackknife(bucket(50_000, 64, runs), 0.5)
        assert found is not None
        assert found.stderr == pytest.approx(32 / 50_063)


def test_neighbouring_buckets_are_not_called_different() -> None:
    base, candidate = bucket(50_000, 64, 20), bucket(50_064, 64, 20)
    one, other = jackknife(base, 0.5), jackknife(candidate, 0.5)
    assert one is not None
    assert other is not None
    for found in (difference(one, other), paired_jackknife(base, candidate, 0.5, 0.95)):
        assert found is not None
        assert found.p_value is not None
        assert 0.1 < found.p_value < 1
        assert not found.significant()


def test_buckets_far_apart_are_called_different() -> None:
    one, other = (jackknife(bucket(low, 64, 20), 0.5) for low in (50_000, 51_000))
    assert one is not None
    assert other is not None
    assert difference(one, other).significant()


def test_a_coarse_clock_makes_the_error_its_step() -> None:
    found = jackknife(bucket(1000, 1, 5), 0.5, step=100.0)
    assert found is not None
    assert found.stderr == pytest.approx(0.1)
