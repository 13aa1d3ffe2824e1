"""Rates that change: their points, their means, and what isn't one."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.spec.curve import expected_by, parse_curve

S = 10**9


def points(text: str, seconds: float, seed: int = 1) -> tuple[tuple[int, float], ...]:
    return parse_curve(text).points(int(seconds * S), seed)


def mean(text: str, seconds: float, seed: int = 1) -> float:
    return expected_by(points(text, seconds, seed), int(seconds * S)) / seconds


def rate_at(course: tuple[tuple[int, float], ...], at_s: float) -> float:
    for (begin, rate), (end, after) in pairwise(course):
        if begin <= at_s * S < end:
            return rate + (after - rate) * (at_s * S - begin) / (end - begin)
    return course[-1][1]


def test_a_ramp_takes_the_whole_measurement_or_begins_again() -> None:
    assert points("ramp:0..5k", 7) == ((0, 0.0), (7 * S, 5000.0))
    course = points("ramp:1k..5k/2s", 5)
    assert course == (
        (0, 1000.0), (2 * S - 1, 5000.0), (2 * S, 1000.0), (4 * S - 1, 5000.0), (4 * S, 1000.0),
        (6 * S - 1, 5000.0),
    )  # fmt: skip
    assert mean("ramp:1k..5k/2s", 4) == pytest.approx(3000)


def test_steps_hold_their_rates_and_begin_again() -> None:
    course = points("steps:1k/10s,5k/20s", 60)
    held = [rate_at(course, at) for at in (0, 9.9, 10, 29.9, 30, 39.9, 40, 59.9)]
    assert held == [1000, 1000, 5000, 5000, 1000, 1000, 5000, 5000]
    assert mean("steps:1k/10s,5k/20s", 30) == pytest.approx((1000 * 10 + 5000 * 20) / 30)


@pytest.mark.parametrize("text", ["sine:3k±2k/8s", "sine:3k+-2k/8s"])
def test_a_sine_is_near_one_everywhere(text: str) -> None:
    course = points(text, 16)
    for tick in range(160):
        exact = 3000 + 2000 * math.sin(2 * math.pi * tick / 80)
        assert abs(rate_at(course, tick / 10) - exact) <= 0.005 * 2000
    assert mean(text, 16) == pytest.approx(3000)


def test_bursts_take_turns_for_exponential_times() -> None:
    course = points("onoff:5k/2s,500/8s", 20_000)
    assert rate_at(course, 0) == 5000
    on = [(end - begin) / S for (begin, rate), (end, _) in pairwise(course[:-1]) if rate == 5000]
    lengths = [length for length in on if length > 1e-6]
    assert sum(lengths) / len(lengths) == pytest.approx(2, rel=0.1)
    # The deviation of an exponential law is its mean.
    square = sum((length - 2) ** 2 for length in lengths) / len(lengths)
    assert square**0.5 == pytest.approx(2, rel=0.1)
    assert mean("onoff:5k/2s,500/8s", 20_000) == pytest.approx(1400, rel=0.1)


def test_a_file_is_linear_between_its_rows_or_holds_them(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("rate,note,seconds\n100,a,1700000000\n300,b,1700000010\n0,c,1700000020\n")
    linear, held = points(f"file:{file}", 20), points(f"file:{file}?hold", 30)
    assert [rate_at(linear, at) for at in (0, 5, 10, 15)] == pytest.approx([100, 200, 300, 150])
    assert [rate_at(held, at) for at in (0, 9, 10, 19, 20, 29)] == [100, 100, 300, 300, 0, 0]


RATES = st.integers(0, 9000)
LENGTHS = st.integers(1, 50)


@given(
    st.lists(st.tuples(RATES, LENGTHS), min_size=1, max_size=6).filter(
        lambda held: any(rate for rate, _ in held)
    ),
    st.integers(1, 500),
    st.sampled_from(["steps", "onoff"]),
)
def test_a_schedule_can_take_the_points_of_any_curve(
    held: list[tuple[int, int]], seconds: int, form: str
) -> None:
    """As a plan asks: the first at 0, rising times, no rate below 0, the last above."""
    text = f"{form}:" + ",".join(f"{rate}/{length}s" for rate, length in held)
    course = points(text, seconds, seed=3)
    assert course[0][0] == 0
    assert all(one[0] < after[0] for one, after in pairwise(course))
    assert all(rate >= 0 for _, rate in course)
    assert course[-1][1] > 0
    assert course[-1][0] >= seconds * S
