"""Reports account for the correlation of queued operations."""

from pathlib import Path

import pytest

pytest.importorskip("kvmark._engine")

from kvmark import catalog
from kvmark.analysis.summary.metrics import figure, response_quantiles
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, close_run
from kvmark.report.views.gather import run_answer
from kvmark.report.views.pages import side_by_side_figures
from kvmark.run.context import RunContext
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.metric import parse_metric
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

SECOND = 10**9


def queue(folder: Path, duration_s: int) -> Run:
    """A queue at 99 % of its capacity."""
    spec = RunSpec(
        workload=catalog.load("ycsb/c"),
        system=parse_system_url("sim:?clock=virtual&service=exponential&mean_us=1000"),
        clients=100_000,
        rate=990,
        arrival="poisson",
        duration_ns=duration_s * SECOND,
        load="never",
    )
    with LocalGenerator() as generator:
        setting = RunContext((), generator, Records(folder), host={}, versions={})
        carried = execute(compile_run(spec), spec.as_json(), setting, lambda *_: None)
    return close_run(carried.folder.path)


def test_quantiles_of_one_second_have_no_interval(tmp_path: Path) -> None:
    run = queue(tmp_path, 1)
    for found in response_quantiles(run).values():
        assert found.error is None
        assert found.method == "no interval: 10 of the 25 intervals that an error needs"
    drawn = {one.name: one.data for one in side_by_side_figures([run_answer(run, page_runs=2)] * 2)}
    assert drawn["response-quantiles"]["low"].is_null().all()


def test_the_median_of_a_queue_has_a_wide_interval(tmp_path: Path) -> None:
    run = queue(tmp_path, 30)
    found = figure([run], parse_metric("p50"))
    # As independent operations, 30,000 would know their median to 1 %.
    assert found.relative_error > 0.1
    drawn = {one.name: one.data for one in side_by_side_figures([run_answer(run, page_runs=2)] * 2)}
    shown = drawn["response-quantiles"]
    median = shown.filter(shown["series"] == "p50")
    assert median["low"][0] == pytest.approx((found.low or 0) / 1e9, rel=0.01)
