"""Reports, verdicts and searches account for queues: runs of simulated systems, virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kvmark._engine")

from kvmark import catalog
from kvmark.analysis.summary.metrics import figure, response_quantiles
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.judge import judge
from kvmark.analysis.verdict.rules import Level
from kvmark.experiment.capacity import judge_rate
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, close_run
from kvmark.records.files import INTERVAL_LOG
from kvmark.records.recovery import record_of_logs
from kvmark.report.views.gather import run_answer
from kvmark.report.views.pages import side_by_side_figures
from kvmark.run.context import RunContext
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.metric import parse_metric, parse_objective
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

SECOND = 10**9
Simulated = Callable[..., Run]


@pytest.fixture
def simulated(tmp_path: Path) -> Simulated:
    """Runs reads of a system with these options, and closes the run."""

    def run(system: str, **options: Any) -> Run:
        url = parse_system_url(f"sim:?clock=virtual&{system}")
        spec = RunSpec(workload=catalog.load("ycsb/c"), system=url, load="never", **options)
        with LocalGenerator() as generator:
            context = RunContext((), generator, Records(tmp_path), host={}, versions={})
            executed = execute(compile_run(spec), spec.as_json(), context, lambda *_: None)
        return close_run(executed.folder.path)

    return run


# Correlated operations.


@pytest.fixture
def queue(simulated: Simulated) -> Simulated:
    """A queue at 99 % of its capacity."""
    system = "service=exponential&mean_us=1000"
    return partial(simulated, system, clients=100_000, rate=990, arrival="poisson")


def drawn_quantiles(run: Run) -> Any:
    figures = side_by_side_figures([run_answer(run, page_runs=2)] * 2)
    return next(one.data for one in figures if one.name == "response-quantiles")


def test_quantiles_of_one_second_have_no_interval(queue: Simulated) -> None:
    run = queue(duration_ns=SECOND)
    for found in response_quantiles(run).values():
        assert found.error is None
        assert found.method == "no interval: 10 of the 25 intervals that an error needs"
    assert drawn_quantiles(run)["low"].is_null().all()


def test_the_median_of_a_queue_has_a_wide_interval(queue: Simulated) -> None:
    run = queue(duration_ns=30 * SECOND)
    found = figure([run], parse_metric("p50"))
    # As independent operations, 30,000 would know their median to 1 %.
    assert found.relative_error > 0.1
    shown = drawn_quantiles(run)
    median = shown.filter(shown["series"] == "p50")
    assert median["low"][0] == pytest.approx(found.low, rel=0.01)


# The queue of a warm-up continues in the measurement.


@pytest.fixture
def measured(simulated: Simulated) -> Simulated:
    """A system that does 10,000 operations a second."""

    def run(rate: int, warmup_s: int, duration_s: int, interval_ns: int = SECOND) -> Run:
        return simulated(
            "service=constant&mean_us=100", clients=100_000, rate=rate, arrival="constant",
            warmup_ns=warmup_s * SECOND, duration_ns=duration_s * SECOND, interval_ns=interval_ns,
        )  # fmt: skip

    return run


def test_a_rate_beyond_the_capacity_measures_the_queue_of_the_warm_up(measured: Simulated) -> None:
    run = measured(11_000, 10, 1, SECOND // 10)
    (phase,) = run.counted
    (total,) = run.totals(phase.index)
    assert total.response.p50 == pytest.approx(1.05e9, rel=1e-3)
    assert throughput(run, phase).value == pytest.approx(10_000, rel=1e-3)
    reasons = {reason.code: reason for reason in judge(run).reasons}
    # The backlog of the warm-up doesn't excuse the backlog of the measurement.
    assert reasons["offered_rate_not_reached"].evidence["usually_in_flight"] == 100
    assert reasons["offered_rate_not_reached"].level is Level.INVALID


def test_a_system_within_its_capacity_is_not_affected_by_the_warm_up(measured: Simulated) -> None:
    run = measured(9_000, 2, 12)
    (phase,) = run.counted
    (total,) = run.totals(phase.index)
    assert (total.count, total.response.max) == (12 * 9_000, 100_000)
    codes = {reason.code for reason in judge(run).reasons}
    assert not codes & {"offered_rate_not_reached", "dropped", "schedule_late"}


def test_intervals_and_logs_count_the_operations_that_ended_in_them(measured: Simulated) -> None:
    run = measured(11_000, 10, 2)
    (phase,) = run.counted
    rows = run.intervals.filter(run.intervals["phase"] == phase.index)
    window = rows.filter((rows["operation"] == "TOTAL") & ~rows["drain"])
    assert window["count"].to_list() == [10_000, 10_000]
    assert window["carried"].to_list() == [10_000, 1]
    # A log as the engine writes it, made of the table again.
    (run.path / INTERVAL_LOG).write_bytes(run.intervals.write_ndjson().encode())
    record = record_of_logs(run.path, run.manifest.plan, run.manifest.created)
    for ours, theirs in zip(run.manifest.engine.totals, record["totals"], strict=True):
        assert (theirs["phase"], theirs["count"]) == (ours.phase, ours.count)
        assert theirs["in_window"] == ours.in_window
        assert theirs["response"]["p50"] == ours.response.p50


# A stall of the system is the system's.


def test_a_stall_of_the_system_is_no_late_schedule(simulated: Simulated, tmp_path: Path) -> None:
    # A thousand operations a second for ten seconds; the system stands still for 0.2.
    system = "service=constant&mean_us=100&stall=5.3+0.2"
    load = {"clients": 16, "rate": 1000, "duration_ns": 10 * SECOND, "drain_limit_ns": SECOND}
    stalled = simulated(system, **load)
    (group,) = stalled.counted[0].groups
    assert group.late_busy == group.late > 150
    codes = {reason.code for reason in judge(stalled).reasons}
    assert "concurrency_limit" in codes
    assert "schedule_late" not in codes
    objective = parse_objective("p99<1ms")
    one = judge_rate(Records(tmp_path), [stalled.path.name], 1000, "confirm", [objective], 16)
    assert one.outcome == "missed"
    assert any("clients were busy" in note for note in one.notes)
