"""The eleven numbers of the published table, by its own rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.stats.distributions import spread

ORDER = ("min", "p1", "p5", "p10", "median", "p90", "p95", "p99", "max")


def test_the_rank_is_p_times_n_plus_one() -> None:
    ten = spread([float(number) for number in range(1, 11)])
    assert ten is not None
    # 0.9 * 11 is 9.9: nine tenths of the way from the ninth value to the tenth.
    assert ten.p90 == pytest.approx(9.9)
    assert ten.median == 5.5
    assert ten.p5 == 1.0, "the rank 0.55 lies before the first value"
    assert ten.p95 == 10.0, "the rank 10.45 lies behind the last"


def test_below_99_values_the_first_percentile_is_the_smallest() -> None:
    for n in (1, 2, 50, 98):
        found = spread([float(value) for value in range(n)])
        assert found is not None
        assert (found.p1, found.p99) == (found.min, found.max)
    many = spread([float(value) for value in range(199)])
    assert many is not None
    assert many.p1 == 1.0


def test_no_value_has_no_spread_and_one_has_no_deviation() -> None:
    assert spread([]) is None
    one = spread([7.0])
    assert one is not None
    assert (one.mean, one.stddev, one.p95) == (7.0, 0.0, 7.0)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=150))
def test_the_numbers_rise_as_their_names_say(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    ordered = [getattr(found, name) for name in ORDER]
    assert ordered == sorted(ordered)
