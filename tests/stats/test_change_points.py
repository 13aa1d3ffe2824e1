"""Change points of a history."""

from collections.abc import Sequence
from importlib import import_module
from itertools import permutations

import numpy as np
import pytest

from kvmark.stats import change_points, could_be_seen, least_points


def history(*levels: tuple[float, int], noise: float = 0.03, seed: int = 1) -> list[float]:
    chance = np.random.default_rng(seed)
    parts = [level * chance.lognormal(0, noise, count) for level, count in levels]
    values: list[float] = np.concatenate(parts).tolist()
    return values


def test_a_shift_is_found_with_its_place_and_size() -> None:
    (found,) = change_points(history((100, 20), (90, 20)))
    assert abs(found.index - 20) <= 1
    assert found.ratio == pytest.approx(0.9, abs=0.02)
    assert found.p_value <= 0.01


def test_every_shift_of_several_is_found_in_order() -> None:
    found = change_points(history((100, 15), (80, 15), (120, 15)))
    assert [one.index for one in found] == pytest.approx([15, 30], abs=1)
    assert [one.ratio > 1 for one in found] == [False, True]


def test_a_level_history_rarely_has_a_shift() -> None:
    false = sum(bool(change_points(history((100, 14), seed=seed))) for seed in range(30))
    assert false <= 2


OUTLIER = [*history((100, 14)), 300, *history((100, 15), seed=2)]


@pytest.mark.parametrize("values", [OUTLIER, [100, 100, 50, 50, 50], []])
def test_neither_an_outlier_nor_a_short_history_is_a_shift(values: list[float]) -> None:
    assert change_points(values) == ()


def test_the_same_history_gives_the_same_answer() -> None:
    values = history((100, 10), (97, 10))
    assert change_points(values) == change_points(values)
    with pytest.raises(ValueError, match="above 0"):
        change_points([1.0, 0.0])


def energy(left: Sequence[float], right: Sequence[float]) -> float:
    """The energy statistic of two sides, as it is defined."""

    def mean(one: Sequence[float], other: Sequence[float]) -> float:
        return sum(abs(a - b) for a in one for b in other) / (len(one) * len(other))

    weight = len(left) * len(right) / (len(left) + len(right))
    return weight * (2 * mean(left, right) - mean(left, left) - mean(right, right))


def best(logs: Sequence[float]) -> float:
    return max(energy(logs[:cut], logs[cut:]) for cut in range(3, len(logs) - 2))


def test_all_permutations_of_few_points_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("kvmark.stats.change_points"), "ERROR_LEVEL", 1.0)
    logs = np.random.default_rng(3).normal(size=7).tolist()
    (found,) = change_points(np.exp(logs).tolist())
    reached = best(logs) * (1 - 1e-9)
    beaten = [best(order) >= reached for order in permutations(logs)]
    assert found.p_value == pytest.approx(sum(beaten) / len(beaten))


def test_only_the_least_number_of_points_shows_a_change() -> None:
    assert least_points() == 10
    for n in (8, 9, 10, 11):
        values = [1.0 + place / 1000 for place in range(n)]
        values[n // 2 :] = [value * 100 for value in values[n // 2 :]]
        assert len(change_points(values)) == (n >= 10)


def test_the_detectable_change_is_found_in_about_eight_of_ten_histories() -> None:
    chance = np.random.default_rng(1)
    seen = []
    for _ in range(150):
        share = could_be_seen(chance.lognormal(0, 0.03, 14).tolist())
        other = chance.lognormal(0, 0.03, 14)
        other[7:] *= 1 + share
        seen.append(bool(change_points(other.tolist())))
    assert 0.65 <= sum(seen) / len(seen) <= 0.95


def test_the_detectable_change_uses_the_scatter_around_levels() -> None:
    moved = history((100, 20), (200, 20))
    level, stepped = could_be_seen(history((100, 40))), could_be_seen(moved, [20])
    assert stepped == pytest.approx(level, rel=0.3)
    assert could_be_seen(history((100, 9))) is None
