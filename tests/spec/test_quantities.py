"""Durations, counts, rates and sizes are read as people write them, and nonsense is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.spec.quantity import LARGEST, count, duration_ns, listed, ramp, rate, share, size_bytes


@pytest.mark.parametrize(
    ("parse", "read"),
    [
        (duration_ns, {"30s": 30 * 10**9, "2m": 120 * 10**9, "500ms": 500 * 10**6, "7ns": 7,
                       "1h30m": 5400 * 10**9, "2.5s": 2_500_000_000, "10us": 10_000,
                       "1d": 86400 * 10**9, " 5s ": 5 * 10**9}),
        (count, {"1000": 1000, "1_000": 1000, "10k": 10_000, "1M": 10**6, "1e6": 10**6,
                 "1.5k": 1500, "0": 0, str(LARGEST): LARGEST}),
        (rate, {"1000": 1000.0, "5k/s": 5000.0, "0.5": 0.5, "max": None}),
        (size_bytes, {"100": 100, "100B": 100, "1KiB": 1024, "64MB": 64_000_000, "2 GiB": 2 << 30}),
        (share, {"3%": 0.03, "0.03": 0.03, "0.5 %": 0.005}),
        (ramp, {"1k..50k": (1000.0, 50_000.0), "0..2": (0.0, 2.0), " 5/s .. 1k/s": (5.0, 1000.0)}),
    ],
)  # fmt: skip
def test_a_quantity_is_read_as_people_write_it(parse: Any, read: dict[str, Any]) -> None:
    assert {text: parse(text) for text in read} == read


@pytest.mark.parametrize("parse", [duration_ns, count, rate, share, size_bytes])
@pytest.mark.parametrize(
    "text", ["", " ", "-1", "-1s", "abc", "1x", "s", "1 2", "٣", "1__0", "nan", "inf", "1" * 200]
)
def test_nonsense_is_refused_in_one_sentence(parse: Any, text: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


def test_a_list_is_separated_by_commas_and_has_no_empty_place() -> None:
    assert listed("1000,3k", count) == (1000, 3000)
    assert listed("1000,max", rate) == (1000.0, None)
    for text in ("", ",", "1,", "1,,2"):
        with pytest.raises(SpecError):
            listed(text, count)


@given(st.integers(0, LARGEST))
def test_every_count_can_be_written_plainly(number: int) -> None:
    assert count(str(number)) == number
    assert size_bytes(f"{number}") == number
    assert duration_ns(f"{number}ns") == number
