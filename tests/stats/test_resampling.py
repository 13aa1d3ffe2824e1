"""The error of quantiles of merged histograms."""

import math

import numpy as np
import pytest

from kvmark.stats import Counts, difference, jackknife, paired_jackknife

MEDIAN_NS = 50_000


def drawn(chance: np.random.Generator, count: int, shift: float = 0.0) -> Counts:
    """Lognormal times in steps of a hundredth, as in a histogram."""
    logs = chance.normal(math.log(MEDIAN_NS) + shift, 0.5, count)
    return Counts.of(np.exp(np.round(logs, 2)).astype(np.int64))


def test_the_value_is_the_quantile_of_merged_runs() -> None:
    chance = np.random.default_rng(1)
    parts = [drawn(chance, 500), drawn(chance, 5000)]
    found = jackknife(parts, 0.9)
    assert found.value == pytest.approx(Counts.merge(parts).quantile(0.9))


def test_the_interval_of_shifting_runs_has_the_stated_coverage() -> None:
    chance = np.random.default_rng(2)
    held = 0
    for _ in range(150):
        parts = [drawn(chance, 200, shift) for shift in chance.normal(0, 0.1, 8)]
        found = jackknife(parts, 0.5)
        estimate = found.estimate("ns")
        held += (estimate.low or 0) <= MEDIAN_NS <= (estimate.high or math.inf)
    # 95 % of 150, and three deviations of a binomial count.
    assert 134 <= held <= 150


def test_one_run_alone_has_a_quantile_and_no_error_between_runs() -> None:
    found = jackknife([drawn(np.random.default_rng(1), 100)], 0.5)
    assert found.spread is None
    assert jackknife([], 0.5) is None


def test_paired_runs_lose_the_common_shift_of_a_block() -> None:
    chance = np.random.default_rng(4)
    shifts = chance.normal(0, 0.3, 10)
    base = [drawn(chance, 2000, shift) for shift in shifts]
    candidate = [drawn(chance, 2000, shift + 0.1) for shift in shifts]
    found = paired_jackknife(base, candidate, 0.5, 0.95)
    assert found.ratio.value == pytest.approx(math.exp(0.1), rel=0.03)
    assert found.significant()


def bucket(low: int, width: int, runs: int) -> list[Counts]:
    """Runs with all times in one bucket."""
    one = Counts(np.array([low]), np.array([low + width - 1]), np.array([1000]))
    return [one] * runs


def test_the_error_of_runs_in_one_bucket_is_half_its_width() -> None:
    for runs in (2, 20):
        found = jackknife(bucket(50_000, 64, runs), 0.5)
        assert found.stderr == pytest.approx(32 / 50_063)


@pytest.mark.parametrize(("low", "differs"), [(50_064, False), (51_000, True)])
def test_only_distant_buckets_differ_significantly(low: int, *, differs: bool) -> None:
    base, candidate = bucket(50_000, 64, 20), bucket(low, 64, 20)
    one, other = jackknife(base, 0.5), jackknife(candidate, 0.5)
    for effect in (difference(one, other), paired_jackknife(base, candidate, 0.5, 0.95)):
        assert effect.significant() == differs
        assert differs or 0.1 < effect.p_value < 1


def test_a_coarse_clock_makes_the_error_its_step() -> None:
    found = jackknife(bucket(1000, 1, 5), 0.5, step=100.0)
    assert found.stderr == pytest.approx(0.1)
