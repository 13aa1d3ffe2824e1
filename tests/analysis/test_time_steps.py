"""Response times along a logarithmic axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvmark.analysis.summary.chart_data import MOST_STEPS, TimeSteps, response_steps, steps_of
from kvmark.stats import Counts

PLACE = ("clients", "READ")
times_ns = st.lists(st.integers(0, 10**14), min_size=1, max_size=200)


def steps(*values_ns: int) -> TimeSteps:
    found = steps_of("response", {PLACE: Counts.of(values_ns)})
    assert found is not None
    return found


@given(st.lists(times_ns, min_size=1, max_size=4))
def test_the_counts_of_each_kind_sum_to_its_operations(kinds: list[list[int]]) -> None:
    found = steps_of(
        "response", {("g", str(n)): Counts.of(values) for n, values in enumerate(kinds)}
    )
    assert found is not None
    assert [sum(kind.counts) for kind in found.kinds] == [len(values) for values in kinds]
    assert {len(kind.counts) for kind in found.kinds} == {len(found.edges_ns) - 1}
    assert list(found.edges_ns) == sorted(found.edges_ns)


@given(times_ns)
def test_a_mark_stands_where_its_quantile_was_counted(values: list[int]) -> None:
    found = steps(*values)
    (kind,) = found.kinds
    counts = Counts.of(values)
    for name, q in {"p50": 0.5, "p99": 0.99, "max": 1.0}.items():
        assert (name in kind.marks) == counts.shows(q)
        if name in kind.marks:
            value = counts.quantile(q) or 0
            step = kind.marks[name]
            # An edge is a power that a float holds to the last digit or so.
            assert found.edges_ns[step] * (1 - 1e-8) <= max(value, 1)
            assert max(value, 1) <= found.edges_ns[step + 1] * (1 + 1e-8)
            assert kind.counts[step] > 0


def test_the_axis_is_short_and_of_one_factor() -> None:
    found = steps(*([50_000] * 90), *([60_000_000] * 10))
    assert len(found.edges_ns) - 1 <= MOST_STEPS
    ratios = {round(b / a, 6) for a, b in zip(found.edges_ns[1:], found.edges_ns[2:], strict=False)}
    assert ratios == {round(10 ** (1 / found.per_decade), 6)}


def test_equal_times_stand_in_one_step() -> None:
    found = steps(*([200_000] * 30))
    assert found.kinds[0].counts == (30,)
    assert found.kinds[0].marks == {"p50": 0, "max": 0}
    assert found.edges_ns[0] <= 200_000 < found.edges_ns[1]


def test_one_operation_has_a_maximum_and_no_quantile() -> None:
    assert steps(5).kinds[0].marks == {"max": 0}


def test_the_fastest_hundredth_does_not_stretch_the_axis() -> None:
    found = steps(1, *([1_000_000] * 500))
    assert found.edges_ns[0] == 0
    assert found.kinds[0].counts[0] == 501
    assert len(found.kinds[0].counts) == 1


def test_without_an_operation_that_ended_ok_there_is_no_axis() -> None:
    assert steps_of("response", {PLACE: Counts.empty()}) is None


def test_a_run_s_steps_are_of_what_ended_ok(healthy: Callable[[], Any]) -> None:
    draft = healthy()
    draft.engine["totals"].append({**draft.total("READ"), "outcome": "timeout", "count": 7})
    run = draft.run()
    found = response_steps(run)
    assert found is not None
    ok = {total.operation: total.count for total in run.totals(0) if total.outcome == "ok"}
    assert {kind.operation: sum(kind.counts) for kind in found.kinds} == ok
