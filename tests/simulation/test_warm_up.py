"""The queue of a warm-up continues in the measurement, and results account for it."""

from collections.abc import Callable

import pytest

from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.judge import judge
from kvmark.analysis.verdict.rules import Level
from kvmark.records import Run
from kvmark.records.files import INTERVAL_LOG
from kvmark.records.recovery import record_of_logs

SECOND = 10**9
Measured = Callable[..., Run]


@pytest.fixture
def measured(simulated: Measured) -> Measured:
    """A system that does 10,000 operations a second."""

    def run(rate: int, warmup_s: int, duration_s: int, interval_ns: int = SECOND) -> Run:
        return simulated(
            "service=constant&mean_us=100",
            clients=100_000,
            rate=rate,
            arrival="constant",
            warmup_ns=warmup_s * SECOND,
            duration_ns=duration_s * SECOND,
            interval_ns=interval_ns,
        )

    return run


def test_an_offered_rate_beyond_the_capacity_measures_the_queue_of_the_warm_up(
    measured: Measured,
) -> None:
    run = measured(11_000, 10, 1, SECOND // 10)
    (phase,) = run.counted
    (total,) = run.totals(phase.index)
    assert total.response.p50 == pytest.approx(1.05e9, rel=1e-3)
    assert throughput(run, phase).value == pytest.approx(10_000, rel=1e-3)
    reasons = {reason.code: reason for reason in judge(run).reasons}
    # The backlog of the warm-up doesn't excuse the backlog of the measurement.
    assert reasons["offered_rate_not_reached"].evidence["usually_in_flight"] == 100
    assert reasons["offered_rate_not_reached"].level is Level.INVALID


def test_a_system_within_its_capacity_is_not_affected_by_the_warm_up(measured: Measured) -> None:
    run = measured(9_000, 2, 12)
    (phase,) = run.counted
    (total,) = run.totals(phase.index)
    assert total.count == 12 * 9_000
    assert total.response.max == 100_000
    codes = {reason.code for reason in judge(run).reasons}
    assert not codes & {"offered_rate_not_reached", "dropped", "schedule_late"}


def test_an_interval_counts_the_operations_that_ended_in_it(measured: Measured) -> None:
    run = measured(11_000, 10, 2)
    (phase,) = run.counted
    rows = run.intervals.filter(run.intervals["phase"] == phase.index)
    window = rows.filter((rows["operation"] == "TOTAL") & ~rows["drain"])
    assert window["count"].to_list() == [10_000, 10_000]
    assert window["carried"].to_list() == [10_000, 1]


def test_the_logs_contain_the_totals_of_the_engine(measured: Measured) -> None:
    run = measured(11_000, 10, 2)
    # A log as the engine writes it, made of the table again.
    (run.path / INTERVAL_LOG).write_bytes(run.intervals.write_ndjson().encode())
    record = record_of_logs(run.path, run.manifest.plan, run.manifest.created)
    for ours, theirs in zip(run.manifest.engine.totals, record["totals"], strict=True):
        assert (theirs["phase"], theirs["count"]) == (ours.phase, ours.count)
        assert theirs["in_window"] == ours.in_window
        assert theirs["response"]["p50"] == ours.response.p50
