"""The error of quantiles of merged histograms."""

import math

import numpy as np
import pytest

from kvmark.stats import Counts, block_bootstrap, jackknife, paired_jackknife

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


def test_intervals_that_resemble_their_neighbours_are_worth_less() -> None:
    chance = np.random.default_rng(5)
    steady = [drawn(chance, 200, shift) for shift in chance.normal(0, 0.1, 60)]
    slow = np.repeat(chance.normal(0, 0.1, 6), 10)
    waves = [drawn(chance, 200, shift) for shift in slow]
    one, other = block_bootstrap(steady, 0.5), block_bootstrap(waves, 0.5)
    assert one is not None
    assert other is not None
    assert (other.stderr or 0) > 1.5 * (one.stderr or 0)


def test_the_same_seed_gives_the_same_error() -> None:
    parts = [drawn(np.random.default_rng(seed), 300) for seed in range(20)]
    first, again, other = (block_bootstrap(parts, 0.99, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_few_intervals_have_no_error() -> None:
    parts = [drawn(np.random.default_rng(seed), 300) for seed in range(4)]
    found = block_bootstrap(parts, 0.5)
    assert found is not None
    assert found.stderr is None
    assert block_bootstrap([], 0.5) is None
