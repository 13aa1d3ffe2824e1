"""Reports account for the correlation of queued operations."""

from collections.abc import Callable
from functools import partial

import pytest

from kvmark.analysis.summary.metrics import figure, response_quantiles
from kvmark.records import Run
from kvmark.report.views.gather import run_answer
from kvmark.report.views.pages import side_by_side_figures
from kvmark.spec.metric import parse_metric

SECOND = 10**9


@pytest.fixture
def queue(simulated: Callable[..., Run]) -> Callable[..., Run]:
    """A queue at 99 % of its capacity."""
    system = "service=exponential&mean_us=1000"
    return partial(simulated, system, clients=100_000, rate=990, arrival="poisson")


def test_quantiles_of_one_second_have_no_interval(queue: Callable[..., Run]) -> None:
    run = queue(duration_ns=SECOND)
    for found in response_quantiles(run).values():
        assert found.error is None
        assert found.method == "no interval: 10 of the 25 intervals that an error needs"
    drawn = {one.name: one.data for one in side_by_side_figures([run_answer(run, page_runs=2)] * 2)}
    assert drawn["response-quantiles"]["low"].is_null().all()


def test_the_median_of_a_queue_has_a_wide_interval(queue: Callable[..., Run]) -> None:
    run = queue(duration_ns=30 * SECOND)
    found = figure([run], parse_metric("p50"))
    # As independent operations, 30,000 would know their median to 1 %.
    assert found.relative_error > 0.1
    drawn = {one.name: one.data for one in side_by_side_figures([run_answer(run, page_runs=2)] * 2)}
    shown = drawn["response-quantiles"]
    median = shown.filter(shown["series"] == "p50")
    assert median["low"][0] == pytest.approx((found.low or 0) / 1e9, rel=0.01)
