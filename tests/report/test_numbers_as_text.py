from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.report.model import units
from kvmark.stats import Estimate

SECONDS, MICROS = units.TIME_UNITS[3], units.TIME_UNITS[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.14159, "3.14"), (51_234.5, "51,234"), (0.00123456, "0.00123"), (99.96, "100"),
        (9.999, "10.0"), (0.0, "0"), (None, "–"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (17_953.32, 312.4, "17,950 ± 310"),
        (12.3456, 0.0312, "12.346 ± 0.031"),
        (504_000.0, 10_080.0, "504,000 ± 10,000"),
        (12.0, None, "12.0"),
        (12.0, 0.0, "12.0"),
    ],
)
def test_an_estimate_ends_where_its_error_begins(
    value: float, error: float | None, text: str
) -> None:
    low, high = (None, None) if error is None else (value - error, value + error)
    assert units.estimate(Estimate(value, low, high, 20, "ops/s", "t")) == text


@given(st.floats(1e-9, 1e15), st.integers(2, 6))
def test_rounding_keeps_the_number(value: float, digits: int) -> None:
    shown = float(units.significant(value, digits).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * 1.001)


def test_times_and_sizes_have_a_suitable_unit() -> None:
    assert units.time_unit([900, 15_000, 95_000]).name == "µs"
    assert units.time_unit([15_000_000, None, 2_000_000_000, 40_000_000]).name == "ms"
    assert units.time_unit([None]).name == "µs"
    assert [units.with_unit(ns) for ns in (95_012, 2.5e9, None)] == ["95.0 µs", "2.50 s", "–"]
    assert [units.size(n) for n in (999, 1_500, 312_000_000)] == ["999 B", "1.50 kB", "312 MB"]


@pytest.mark.parametrize(
    ("time_ns", "unit", "text"),
    [
        (56_400, SECONDS, "56.4 µs"), (9_120_000, SECONDS, "9.12 ms"),
        (20_000_000, SECONDS, "0.0200"), (2.02e9, MICROS, "2.02 s"),
        (12_345_000, MICROS, "12,345"), (0, SECONDS, "0"), (None, SECONDS, "–"),
    ],
)  # fmt: skip
def test_a_time_far_from_its_unit_has_another(
    time_ns: float | None, unit: units.TimeUnit, text: str
) -> None:
    assert units.duration(time_ns, unit) == text
