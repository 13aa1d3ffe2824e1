"""One grammar for figures: what `--metric`, objectives and conditions take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError, UsageError
from kvmark.spec.condition import parse_condition
from kvmark.spec.metric import (
    THROUGHPUT,
    Metric,
    check_operations,
    parse_comparable,
    parse_metric,
)
from kvmark.spec.objective import parse_objective


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("throughput", THROUGHPUT),
        ("p50", Metric("quantile", "p50")),
        ("p99.9", Metric("quantile", "p999")),
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
    ("text", "q"), [("p99", 0.99), ("p999", 0.999), ("p5", 0.05), ("p5.5", 0.055), ("p55", 0.55)]
)
def test_a_quantile_is_its_share(text: str, q: float) -> None:
    assert parse_metric(text).q == pytest.approx(q)
    assert parse_metric(parse_metric(text).name).q == pytest.approx(q)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a metric; write throughput, p99"),
        ("mesn", "there is no figure 'mesn' — did you mean 'mean'?"),
        ("p100", "p100 is the maximum; write max"),
        ("p101", "'p101' is not a quantile; write p10.1 or p10"),
        ("p999.9", "'p999.9' is not a quantile; write p99.9 or p999"),
        ("a.b.p99", "'a.b.p99' has more than an operation and a time before p99"),
        ("service.READ.p99", "'service.READ.p99' has more than an operation and a time"),
        ("wait errors", "errors has no wait time; write errors alone"),
    ],
)
def test_what_is_no_metric_is_told_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(SpecError) as problem:
        parse_metric(text)
    assert str(problem.value).startswith(said)


@pytest.mark.parametrize("text", ["errors", "READ.errors", "max", "service.max"])
def test_what_has_no_ratio_can_not_be_compared(text: str) -> None:
    with pytest.raises(SpecError, match="can't be compared"):
        parse_comparable(text)


@pytest.mark.parametrize(
    "text", ["p99", "p99>5", "p98x>5%", "p99>-5%", "throughput<3%", "a.b.p99>1%", "errors>1%"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_condition(text)


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


@given(st.text(max_size=40))
def test_any_text_is_a_metric_or_a_sentence(text: str) -> None:
    try:
        found = parse_metric(text)
    except SpecError as problem:
        assert "\n" not in str(problem)
    else:
        assert parse_metric(found.name) == found
