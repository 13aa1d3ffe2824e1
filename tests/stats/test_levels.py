"""Levels on a logarithmic scale, their differences, and several claims at a time."""

import math

import numpy as np
import pytest

from kvmark.stats import (
    Effect,
    Level,
    PrecisionTarget,
    as_family,
    decide,
    difference,
    level_of,
    level_of_stages,
)
from kvmark.stats.level import holm, paired_difference


def within(value: float, spread: float, units: float) -> Level:
    return Level(math.log(value), spread, units, between_runs=False, method="intervals")


def test_a_ratio_is_inverted_when_the_sides_are_exchanged() -> None:
    one, other = level_of([100, 104, 98, 101]), level_of([110, 115, 112])
    there, back = difference(one, other), difference(other, one)
    assert there.ratio.value == pytest.approx(1 / back.ratio.value)
    assert there.ratio.low == pytest.approx(1 / (back.ratio.high or 0))
    assert there.p_value == pytest.approx(back.p_value)


def test_equal_sides_differ_significantly_in_one_of_twenty_comparisons() -> None:
    chance = np.random.default_rng(3)
    found = sum(
        difference(
            level_of(chance.lognormal(5, 0.1, 6)), level_of(chance.lognormal(5, 0.3, 9))
        ).significant()
        for _ in range(2000)
    )
    # Three deviations of a binomial count around 100.
    assert 70 <= found <= 130


def test_the_smallest_detectable_change_is_found_in_eight_of_ten_comparisons() -> None:
    chance = np.random.default_rng(5)
    spread, runs = 0.05, 10
    change = math.expm1((2.101 + 0.862) * spread * (2 / runs) ** 0.5)

    def compared(ratio: float) -> Effect:
        one, other = (chance.lognormal(math.log(100), spread, runs) for _ in range(2))
        return difference(level_of(one.tolist()), level_of((ratio * other).tolist()))

    assert compared(1.0).detectable is not None
    assert 760 <= sum(compared(1 + change).significant() for _ in range(1000)) <= 850


def test_a_single_run_has_the_scatter_of_the_repeated_side() -> None:
    repeated = level_of([100, 104, 98, 101, 97])
    alone = within(102, 0.0001, 1000)
    found = difference(repeated, alone)
    spread = repeated.spread or 0
    half = 2.776 * spread * (1 + 1 / 5) ** 0.5
    assert math.log((found.ratio.high or 0) / found.ratio.value) == pytest.approx(half, rel=1e-3)


def test_two_single_runs_are_compared_by_the_scatter_within_each() -> None:
    found = difference(within(100, 0.1, 25), within(110, 0.1, 25))
    assert found.significant()
    assert not difference(within(100, 0.1, 4), within(110, 0.1, 4)).significant()


def test_without_an_error_nothing_is_significant() -> None:
    with pytest.raises(ValueError, match="above 0"):
        level_of([1.0, 0.0])
    alone = Level(math.log(100), None, 1, between_runs=False, method="one count")
    found = difference(alone, within(200, 0.1, 20))
    assert found.ratio.low is None
    assert found.p_value is None
    assert not found.significant()


def test_a_change_in_a_family_must_be_larger() -> None:
    found = difference(level_of([100, 103, 98, 101]), level_of([106, 108, 104, 107]))
    same = difference(level_of([100, 103, 98, 101]), level_of([101, 102, 99, 100]))
    assert found.significant()
    assert as_family([found])[0].significant()
    (alone, *_), many = as_family([found, same]), as_family([found, *[same] * 99])
    assert alone.significant()
    assert not many[0].significant()
    assert (many[0].p_value, many[0].ratio) == (found.p_value, found.ratio)
    assert many[0].detectable is not None
    assert found.detectable < alone.detectable < many[0].detectable


def test_effects_without_an_error_take_no_share_of_a_family_s_level() -> None:
    found = difference(level_of([100, 103, 98, 101]), level_of([106, 108, 104, 107]))
    unknown = difference(level_of([100.0]), level_of([101.0]))
    together = as_family([unknown, found, unknown])
    assert together[0] == unknown
    assert together[1].family_p_value == found.p_value


def test_holm_multiplies_the_smallest_by_all_and_never_reverses_an_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("floor", "candidate"),
    [(5e-4, level_of([1000.4] * 5, 5e-4)), (0.01, within(1001, 0.0001, 10))],
    ids=["repetitions", "a single run"],
)
def test_equal_repetitions_within_the_floor_are_no_significant_difference(
    floor: float, candidate: Level
) -> None:
    found = difference(level_of([1000.0] * 5, floor), candidate)
    assert found.p_value > 0.5
    assert found.ratio.low < 1


def test_an_error_of_0_counts_as_unknown() -> None:
    found = difference(level_of([1000.0] * 5), level_of([1000.4] * 5))
    assert (found.p_value, found.ratio.low, found.detectable) == (None, None, None)
    assert not found.significant()


def test_equal_blocks_have_the_floor_as_their_error() -> None:
    found = paired_difference([0.001] * 12, floor=0.001)
    assert 0.2 < found.p_value < 0.5
    decided = decide([0.001] * 12, PrecisionTarget(0.01, None, 20), floor=0.001).effect
    assert decided.p_value == pytest.approx(found.p_value)


def test_repetitions_in_two_stages_have_the_wider_error() -> None:
    early, late = [100.0, 110.0, 90.0], [100.0] * 5
    found, plain = level_of_stages(early, late), level_of([*early, *late])
    assert found.log == plain.log
    assert (found.estimate("").error or 0) > (plain.estimate("").error or 0)
    assert level_of_stages([100.0, 100.1, 99.9], [80.0, 120.0]).units == 5
