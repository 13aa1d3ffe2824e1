"""Durations, counts, rates and sizes are read as people write them, and nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.spec.quantity import LARGEST, count, duration_ns, listed, ramp, rate, share, size_bytes


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("30s", 30 * 10**9),
        ("2m", 120 * 10**9),
        ("500ms", 500 * 10**6),
        ("1h30m", 5400 * 10**9),
        ("2.5s", 2_500_000_000),
        ("10us", 10_000),
        ("7ns", 7),
        ("1d", 86400 * 10**9),
        (" 5s ", 5 * 10**9),
    ],
)
def test_a_duration_is_read_in_nanoseconds(text: str, expected_ns: int) -> None:
    assert duration_ns(text) == expected_ns


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1000", 1000), ("1_000", 1000), ("10k", 10_000), ("1M", 10**6), ("1e6", 10**6),
     ("1.5k", 1500), ("0", 0), (str(LARGEST), LARGEST)],
)  # fmt: skip
def test_a_count_is_a_whole_number(text: str, expected: int) -> None:
    assert count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1000", 1000.0), ("5k/s", 5000.0), ("0.5", 0.5), ("max", None)]
)
def test_a_rate_is_in_operations_per_second_or_without_limit(
    text: str, expected: float | None
) -> None:
    assert rate(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100", 100), ("100B", 100), ("1KiB", 1024), ("64MB", 64_000_000), ("2 GiB", 2 << 30)],
)
def test_a_size_is_in_bytes(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("3%", 0.03), ("0.03", 0.03), ("0.5 %", 0.005)])
def test_a_share_is_written_as_percent_or_as_a_number(text: str, expected: float) -> None:
    assert share(text) == pytest.approx(expected)


@pytest.mark.parametrize("parse", [duration_ns, count, rate, share, size_bytes])
@pytest.mark.parametrize(
    "text", ["", " ", "-1", "-1s", "abc", "1x", "s", "1 2", "٣", "1__0", "nan", "inf", "1" * 200]
)
def test_nonsense_is_refused_in_one_sentence(parse, text: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("parse", "text", "sentence"),
    [
        (duration_ns, "30", "'30' is not a duration; write it like 30s, 500ms or 1h30m"),
        (duration_ns, "1s1s", "'1s1s' is not a duration; write it like 30s, 500ms or 1h30m"),
        (duration_ns, "0.1ns", "'0.1ns' is not a whole number of nanoseconds"),
        (count, "-3", "'-3' is not a count; write it like 1000, 10k, 1M or 1e6"),
        (count, "1.5", "'1.5' is not a whole number"),
        (count, "1e19", f"'1e19' is too large; at most {LARGEST} is possible"),
        (rate, "0", "a rate must be above 0, not '0'; write max for no limit"),
        (size_bytes, "1XB", "'1XB' is not a size; write it like 100, 1KiB or 64MB"),
        (share, "3 percent", "'3 percent' is not a share; write it like 0.1% or 0.001"),
    ],
)
def test_the_sentence_says_what_to_write(parse, text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse(text)
    assert str(refusal.value) == sentence


def test_a_list_is_separated_by_commas() -> None:
    assert listed("1000,3k", count) == (1000, 3000)
    assert listed("1000,max", rate) == (1000.0, None)


@pytest.mark.parametrize("text", ["", ",", "1,", "1,,2"])
def test_a_list_has_no_empty_place(text: str) -> None:
    with pytest.raises(SpecError):
        listed(text, count)


@given(st.integers(0, LARGEST))
def test_every_count_can_be_written_plainly(number: int) -> None:
    assert count(str(number)) == number
    assert size_bytes(f"{number}") == number
    assert duration_ns(f"{number}ns") == number


@given(st.text(max_size=40), st.sampled_from([duration_ns, count, rate, size_bytes]))
def test_no_text_raises_anything_but_a_spec_error(text: str, parse) -> None:
    try:
        value = parse(text)
    except SpecError:
        return
    assert value is None or value >= 0


@pytest.mark.parametrize(
    ("text", "ends"),
    [("1k..50k", (1000.0, 50_000.0)), ("0..2", (0.0, 2.0)), (" 5/s .. 1k/s", (5.0, 1000.0))],
)
def test_a_ramp_is_two_rates(text: str, ends: tuple[float, float]) -> None:
    assert ramp(text) == ends


@pytest.mark.parametrize("text", ["5k", "1k..", "..5", "1..max", "5..0", "1..2..3"])
def test_what_is_not_two_rates_is_no_ramp(text: str) -> None:
    with pytest.raises(SpecError):
        ramp(text)
