"""Changes of a series: change points, drift, the gain of a warm-up, and changed shares."""

from collections.abc import Sequence
from importlib import import_module
from itertools import permutations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kvmark import stats


def history(*levels: tuple[float, int], noise: float = 0.03, seed: int = 1) -> list[float]:
    chance = np.random.default_rng(seed)
    parts = [level * chance.lognormal(0, noise, count) for level, count in levels]
    values: list[float] = np.concatenate(parts).tolist()
    return values


def test_a_shift_is_found_with_its_place_and_size() -> None:
    (found,) = stats.change_points(history((100, 20), (90, 20)))
    assert abs(found.index - 20) <= 1
    assert found.ratio == pytest.approx(0.9, abs=0.02)
    assert found.p_value <= 0.01


def test_every_shift_of_several_is_found_in_order() -> None:
    found = stats.change_points(history((100, 15), (80, 15), (120, 15)))
    assert [one.index for one in found] == pytest.approx([15, 30], abs=1)
    assert [one.ratio > 1 for one in found] == [False, True]


def test_a_level_history_rarely_has_a_shift() -> None:
    false = sum(bool(stats.change_points(history((100, 14), seed=seed))) for seed in range(30))
    assert false <= 2


OUTLIER = [*history((100, 14)), 300, *history((100, 15), seed=2)]


@pytest.mark.parametrize("values", [OUTLIER, [100, 100, 50, 50, 50], []])
def test_neither_an_outlier_nor_a_short_history_is_a_shift(values: list[float]) -> None:
    assert stats.change_points(values) == ()


def test_the_same_history_gives_the_same_answer() -> None:
    values = history((100, 10), (97, 10))
    assert stats.change_points(values) == stats.change_points(values)
    with pytest.raises(ValueError, match="above 0"):
        stats.change_points([1.0, 0.0])


def energy(left: Sequence[float], right: Sequence[float]) -> float:
    """The energy statistic of two sides, by SciPy's distance."""
    weight = len(left) * len(right) / (len(left) + len(right))
    return weight * float(scipy_stats.energy_distance(left, right)) ** 2


def best(logs: Sequence[float]) -> float:
    return max(energy(logs[:cut], logs[cut:]) for cut in range(3, len(logs) - 2))


def test_all_permutations_of_few_points_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("kvmark.stats.change_points"), "ERROR_LEVEL", 1.0)
    logs = np.random.default_rng(3).normal(size=7).tolist()
    (found,) = stats.change_points(np.exp(logs).tolist())
    reached = best(logs) * (1 - 1e-9)
    beaten = [best(order) >= reached for order in permutations(logs)]
    assert found.p_value == pytest.approx(sum(beaten) / len(beaten))


def test_only_the_least_number_of_points_shows_a_change() -> None:
    assert stats.least_points() == 10
    for n in (8, 9, 10, 11):
        values = [1.0 + place / 1000 for place in range(n)]
        values[n // 2 :] = [value * 100 for value in values[n // 2 :]]
        assert len(stats.change_points(values)) == (n >= 10)


def test_the_detectable_change_is_found_in_about_eight_of_ten_histories() -> None:
    chance = np.random.default_rng(1)
    seen = []
    for _ in range(150):
        share = stats.could_be_seen(chance.lognormal(0, 0.03, 14).tolist())
        other = chance.lognormal(0, 0.03, 14)
        other[7:] *= 1 + share
        seen.append(bool(stats.change_points(other.tolist())))
    assert 0.65 <= sum(seen) / len(seen) <= 0.95


def test_the_detectable_change_uses_the_scatter_around_levels() -> None:
    moved = history((100, 20), (200, 20))
    level, stepped = stats.could_be_seen(history((100, 40))), stats.could_be_seen(moved, [20])
    assert stepped == pytest.approx(level, rel=0.3)
    assert stats.could_be_seen(history((100, 9))) is None


# Drift and mix.


def noise(n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(100, 2, n)


def test_a_linear_increase_is_found_with_its_size() -> None:
    found = stats.drift((noise(40, 1) + np.linspace(-10, 10, 40)).tolist())
    assert found.change == pytest.approx(0.2, abs=0.03)
    assert found.p_value < 1e-6


def test_noise_is_rarely_a_drift_and_a_single_stall_is_none() -> None:
    alarms = sum(stats.drift(noise(30, seed).tolist()).p_value < 0.01 for seed in range(500))
    assert alarms / 500 < 0.03
    series = noise(40, 2)
    series[20] = 0
    assert abs(stats.drift(series.tolist()).change) < 0.03


def test_the_slope_is_scipys_theil_sen_slope() -> None:
    series = noise(25, 3)
    slope = scipy_stats.theilslopes(series).slope
    expected = slope * 24 / np.median(series)
    assert stats.drift(series.tolist()).change == pytest.approx(expected)


def test_without_correlation_the_test_is_the_textbook_one() -> None:
    series = [float(value) for value in [3, 1, 4, 2, 6, 5, 8, 7, 9, 10, 12, 11]]
    pairs = [(a, b) for a in range(12) for b in range(a + 1, 12)]
    score = sum(1 if series[b] > series[a] else -1 for a, b in pairs)
    z = (score - 1) / (12 * 11 * 29 / 18) ** 0.5
    assert stats.drift(series).p_value == pytest.approx(2 * scipy_stats.norm.sf(z))


def test_a_long_series_keeps_its_drift_and_a_constant_one_has_none() -> None:
    series = np.random.default_rng(4).normal(1000, 5, 20_000) + np.linspace(0, 300, 20_000)
    assert stats.drift(series.tolist()).change == pytest.approx(0.26, abs=0.02)
    constant = stats.drift([5.0] * 12)
    assert (constant.change, constant.p_value) == (0.0, 1.0)
    with pytest.raises(ValueError, match="at least four"):
        stats.drift([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("counts", "weights", "p_value"),
    [
        (
            [480, 320, 200],
            [5, 3, 2],
            scipy_stats.chisquare([480, 320, 200], [500, 300, 200]).pvalue,
        ),
        # A kind that should not occur is never chance; a single kind always fits.
        ([999, 1], [1, 0], 0.0),
        ([1000], [0.5], 1.0),
    ],
)
def test_a_mix_agrees_with_scipy(counts: list[int], weights: list[float], p_value: float) -> None:
    assert stats.mix_test(counts, weights).p_value == pytest.approx(p_value)


def test_a_mix_has_its_largest_deviation_and_an_empty_one_is_rejected() -> None:
    assert stats.mix_test([480, 320, 200], [5, 3, 2]).deviation == pytest.approx(0.02)
    with pytest.raises(ValueError, match="something counted"):
        stats.mix_test([0, 0], [1, 1])


def test_equal_shares_are_significant_as_often_as_the_level_allows() -> None:
    chance, alone, repeated = np.random.default_rng(3), 0, 0
    for _ in range(1000):
        one, other = ([(int(n), 2000) for n in chance.binomial(2000, 0.02, 4)] for _ in range(2))
        alone += stats.rise_of_share(one[:1], other[:1]) < 0.05
        repeated += stats.rise_of_share(one, other) < 0.05
    # Three deviations of a binomial count around 50.
    assert 29 <= alone <= 71
    assert repeated <= 71


def test_an_increased_share_is_found() -> None:
    low, high = [(0, 1000), (2, 1000), (1, 1000)], [(30, 1000), (28, 1000), (35, 1000)]
    assert stats.rise_of_share(low, high) < 0.001
    assert stats.rise_of_share(high, low) > 0.999
    assert stats.rise_of_share([(0, 10)], [(0, 10)]) == 0.5
    # Equal totals aren't significant if runs scatter far more than by chance.
    assert stats.rise_of_share([(0, 1000), (60, 1000)], [(0, 1000), (90, 1000)]) > 0.05
    with pytest.raises(ValueError, match="observations on both sides"):
        stats.rise_of_share([], low)


# Warm-ups.


@pytest.mark.parametrize(
    ("speeds", "gain"),
    [
        ([1, 1, 1], None),
        ([1, 1, 1, 1], 0.0),
        ([1, 1, 1.2, 1.4], 0.3),
        ([50, 50, 60, 70], 0.3),
        ([2, 2, 1, 1], -0.5),
        # The best two before, and not the two just before: those were slow by chance.
        ([1, 1, 0.5, 0.5, 1, 1], 0.0),
        # Two that share a value with the last two aren't before them.
        ([1, 1, 3, 3], 2.0),
        ([1, 1, 1, 3, 3], 2.0),
    ],
)
def test_the_last_two_face_the_best_two_before(speeds: list[float], gain: float | None) -> None:
    assert stats.warmup_gain(speeds) == (None if gain is None else pytest.approx(gain))
