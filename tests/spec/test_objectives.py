"""Objectives as they are written, and what is said of those that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.spec.objective import parse_objective


@pytest.mark.parametrize(
    ("text", "measure", "q", "time", "bound"),
    [
        ("p99<10ms", "quantile", 0.99, "response", 10e6),
        ("p50 < 500us", "quantile", 0.5, "response", 500e3),
        ("p99.9<1s", "quantile", 0.999, "response", 1e9),
        ("p999<1s", "quantile", 0.999, "response", 1e9),
        ("p9999≤2s", "quantile", 0.9999, "response", 2e9),
        ("service p99<10ms", "quantile", 0.99, "service", 10e6),
        ("wait.p95<=1ms", "quantile", 0.95, "wait", 1e6),
        ("mean<2ms", "mean", None, "response", 2e6),
        ("service max<1s", "max", None, "service", 1e9),
        ("errors<0.1%", "errors", None, "response", 0.001),
        ("errors<=0", "errors", None, "response", 0.0),
        ("throughput>5k/s", "throughput", None, "response", 5_000.0),
        ("READ.service.p99.9<5ms", "quantile", 0.999, "service", 5e6),
        ("READ errors<1%", "errors", None, "response", 0.01),
    ],
)
def test_an_objective_is_a_figure_and_its_bound(
    text: str, measure: str, q: float | None, time: str, bound: float
) -> None:
    objective = parse_objective(text)
    metric = objective.metric
    found = metric.q if metric.quantile else None
    assert (metric.measure, found, metric.time) == (measure, q, time)
    assert objective.bound == pytest.approx(bound)


def test_the_bound_itself_passes_only_where_it_is_said() -> None:
    assert not parse_objective("p99<10ms").met(10e6)
    assert parse_objective("p99<=10ms").met(10e6)
    assert parse_objective("p99<10ms").met(9e6)
    assert not parse_objective("p99<=10ms").met(11e6)
    assert parse_objective("throughput>=100").met(100)
    assert not parse_objective("throughput>100").met(99)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99", "'p99' is not an objective; write it like p99<10ms or errors<0.1%"),
        ("p99=10ms", "'p99=10ms' is not an objective; write it like p99<10ms or errors<0.1%"),
        ("p99<10", "'10' is not a duration; write it like 30s, 500ms or 1h30m"),
        ("p99<0ms", "'p99<0ms' can't be met; write a bound above 0"),
        ("p99>10ms", "'p99>10ms' bounds p99 on the wrong side; write p99<…"),
        ("throughput<5k", "'throughput<5k' bounds throughput on the wrong side; write throughput>"),
        ("throughput>max", "throughput needs a number; write it like throughput>5k/s"),
        ("p100<1s", "p100 is the maximum; write max"),
        ("p0<1s", "'p0' is not a quantile above p0"),
        ("p999.9<1s", "'p999.9' is not a quantile; write p99.9 or p999"),
        ("mesn<1s", "there is no figure 'mesn' — did you mean 'mean'?"),
        ("service errors<1%", "errors has no service time; write errors alone"),
        ("errors<lots", "'lots' is not a share; write it like 0.1% or 0.001"),
        ("errors<200%", "'200%' is more than all operations; write at most 100%"),
        ("errors<0", "'errors<0' can't be met; write a bound above 0 or errors<=0"),
    ],
)
def test_what_is_no_objective_is_told_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(SpecError) as problem:
        parse_objective(text)
    assert str(problem.value).startswith(said)
    assert "\n" not in str(problem.value)


@given(st.text(max_size=40))
def test_any_text_is_an_objective_or_a_sentence(text: str) -> None:
    try:
        parse_objective(text)
    except SpecError as problem:
        assert "\n" not in str(problem)
