"""The gain of speed during a warm-up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.stats import warmup_gain

SPEEDS = st.lists(st.floats(0.01, 100), min_size=4, max_size=30)


@pytest.mark.parametrize(
    ("speeds", "gain"),
    [
        ([1, 1, 1], None),
        ([1, 1, 1, 1], 0.0),
        ([1, 1, 1.2, 1.4], 0.3),
        ([2, 2, 1, 1], -0.5),
        # The best two before, and not the two just before: those were slow by chance.
        ([1, 1, 0.5, 0.5, 1, 1], 0.0),
        # Two that share a value with the last two aren't before them.
        ([1, 1, 3, 3], 2.0),
        ([1, 1, 1, 3, 3], 2.0),
    ],
)
def test_the_last_two_are_compared_with_the_best_two_before(
    speeds: list[float], gain: float | None
) -> None:
    assert warmup_gain(speeds) == (None if gain is None else pytest.approx(gain))


@given(SPEEDS, st.floats(0.01, 100))
def test_the_unit_of_a_speed_doesn_t_matter(speeds: list[float], factor: float) -> None:
    assert warmup_gain([speed * factor for speed in speeds]) == pytest.approx(
        warmup_gain(speeds), abs=1e-9
    )


@given(SPEEDS)
def test_falling_speeds_have_no_gain(speeds: list[float]) -> None:
    gain = warmup_gain(sorted(speeds, reverse=True))
    assert gain <= 0
