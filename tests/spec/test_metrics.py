"""One grammar for figures: what `--metric`, objectives and conditions take."""

import pytest

from kvmark.errors import UsageError
from kvmark.spec.metric import THROUGHPUT, Metric, check_operations, parse_metric
from kvmark.spec.objective import parse_condition, parse_objective


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("throughput", THROUGHPUT),
        ("p50", Metric("quantile", "p50")),
        ("p99.9", Metric("quantile", "p999")),
        ("p9999", Metric("quantile", "p9999")),
        ("service.p99", Metric("quantile", "p99", "service")),
        ("service p99", Metric("quantile", "p99", "service")),
        ("service_p99", Metric("quantile", "p99", "service")),
        ("READ.response_p50", Metric("quantile", "p50", operation="READ")),
        ("READ.p99.9", Metric("quantile", "p999", operation="READ")),
        ("READ p999", Metric("quantile", "p999", operation="READ")),
        ("READ.service.p95", Metric("quantile", "p95", "service", "READ")),
        ("READ-MODIFY-WRITE.wait.mean", Metric("mean", None, "wait", "READ-MODIFY-WRITE")),
        ("READ.throughput", Metric("throughput", operation="READ")),
        ("errors", Metric("errors")),
        ("max", Metric("max")),
    ],
)
def test_the_same_words_are_a_metric_an_objective_and_a_condition(
    text: str, metric: Metric
) -> None:
    assert parse_metric(text) == metric
    bound = {"throughput": ">5k/s", "errors": "<1%"}.get(metric.measure, "<10ms")
    assert parse_objective(f"{text}{bound}").metric == metric
    if metric.measure not in {"errors", "max"}:
        assert parse_condition(f"{text}>5%").metric == metric
    assert parse_metric(metric.name) == metric


@pytest.mark.parametrize(
    ("text", "q"),
    [
        ("p99", 0.99),
        ("p999", 0.999),
        ("p9999", 0.9999),
        ("p5", 0.05),
        ("p5.5", 0.055),
        ("p55", 0.55),
    ],
)
def test_a_quantile_is_its_share(text: str, q: float) -> None:
    assert parse_metric(text).q == pytest.approx(q)
    assert parse_metric(parse_metric(text).name).q == pytest.approx(q)


def test_a_condition_is_written_as_it_was_read() -> None:
    for text in ("p99>5%", "throughput<-3%", "READ.service.p999>0.5%", "mean>0%"):
        assert parse_condition(text).text == text


def test_an_operation_that_is_not_there_is_refused_with_those_that_are() -> None:
    asked = [parse_metric("p99"), parse_metric("READ.p99")]
    check_operations(asked, ["READ", "UPDATE"], "there is")
    with pytest.raises(UsageError) as problem:
        check_operations([parse_metric("servce p99")], ["READ", "UPDATE"], "there is")
    assert str(problem.value) == (
        "'servce.p99': there is no operation 'servce': take one of READ, UPDATE; times are"
        " response, service, wait"
    )


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("p99<10ms", 10e6),
        ("p50 < 500us", 500e3),
        ("p99.9<1s", 1e9),
        ("p9999≤2s", 2e9),
        ("errors<0.1%", 0.001),
        ("errors<=0", 0.0),
        ("throughput>5k/s", 5_000.0),
    ],
)
def test_an_objective_has_a_bound_in_the_unit_of_its_metric(text: str, bound: float) -> None:
    assert parse_objective(text).bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("p99<10ms", 10e6, False),
        ("p99<=10ms", 10e6, True),
        ("p99<10ms", 9e6, True),
        ("p99<=10ms", 11e6, False),
        ("throughput>=100", 100, True),
        ("throughput>100", 99, False),
    ],
)
def test_the_bound_itself_passes_only_where_it_is_said(
    text: str, value: float, *, met: bool
) -> None:
    assert parse_objective(text).met(value) == met
