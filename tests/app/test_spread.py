"""The eleven numbers of the published table, by its own rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.stats.distributions import Spread, spread

ORDER = ("min", "p1", "p5", "p10", "median", "p90", "p95", "p99", "max")


def spread_of(values: list[float]) -> Spread:
    found = spread(values)
    assert found is not None
    return found


def test_the_rank_is_p_times_n_plus_one() -> None:
    ten = spread_of([*range(1, 11)])
    # 0.9 * 11 is 9.9: nine tenths of the way from the ninth value to the tenth. The ranks of p5 and
    # p95, 0.55 and 10.45, lie outside the values.
    assert (ten.p5, ten.median, ten.p90, ten.p95) == (1.0, 5.5, pytest.approx(9.9), 10.0)


def test_below_99_values_the_first_percentile_is_the_smallest() -> None:
    for n in (1, 2, 50, 98):
        found = spread_of([*range(n)])
        assert (found.p1, found.p99) == (found.min, found.max)
    assert spread_of([*range(199)]).p1 == 1.0


def test_no_value_has_no_spread_and_one_has_no_deviation() -> None:
    assert spread([]) is None
    one = spread_of([7.0])
    assert (one.mean, one.stddev, one.p95) == (7.0, 0.0, 7.0)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=150))
def test_the_numbers_rise_as_their_names_say(values: list[float]) -> None:
    ordered = [getattr(spread_of(values), name) for name in ORDER]
    assert ordered == sorted(ordered)
