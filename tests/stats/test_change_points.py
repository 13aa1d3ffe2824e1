"""Where the level of a history moved."""

import numpy as np
import pytest

from kvmark.stats import change_points


def history(*levels: tuple[float, int], noise: float = 0.03, seed: int = 1) -> list[float]:
    chance = np.random.default_rng(seed)
    parts = [level * chance.lognormal(0, noise, count) for level, count in levels]
    values: list[float] = np.concatenate(parts).tolist()
    return values


def test_a_shift_is_found_where_it_is_with_its_size() -> None:
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


def test_an_outlier_is_no_shift() -> None:
    values = history((100, 30))
    values[14] = 300
    assert change_points(values) == ()


def test_a_short_history_has_no_shift() -> None:
    assert change_points([100, 100, 50, 50, 50]) == ()
    assert change_points([]) == ()


def test_the_same_history_gives_the_same_answer() -> None:
    values = history((100, 10), (97, 10))
    assert change_points(values) == change_points(values)


def test_values_must_be_above_nothing() -> None:
    with pytest.raises(ValueError, match="above 0"):
        change_points([1.0, 0.0])
