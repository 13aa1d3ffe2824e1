"""Verdicts and capacity searches attribute a stall of the system to the system."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.analysis.verdict.judge import judge
from kvmark.experiment.capacity import judge_rate
from kvmark.records import Records, Run
from kvmark.spec.objective import parse_objective

SECOND = 10**9


@pytest.fixture
def stalled(simulated: Callable[..., Run]) -> Run:
    """A thousand operations a second for ten seconds, of which the system stands still for 0.2."""
    system = "service=constant&mean_us=100&stall=5.3+0.2"
    return simulated(system, clients=16, rate=1000, duration_ns=10 * SECOND, drain_limit_ns=SECOND)


def test_a_stall_of_the_system_is_a_concurrency_limit_and_no_late_schedule(stalled: Run) -> None:
    (group,) = stalled.counted[0].groups
    assert group.late > 150
    assert group.late_busy == group.late
    codes = {reason.code for reason in judge(stalled).reasons}
    assert "concurrency_limit" in codes
    assert "schedule_late" not in codes


def test_a_missed_rate_during_a_stall_is_a_miss_of_the_system(stalled: Run, tmp_path: Path) -> None:
    objective = parse_objective("p99<1ms")
    one = judge_rate(Records(tmp_path), [stalled.path.name], 1000, "confirm", [objective], 16)
    assert one.outcome == "missed"
    assert any("clients were busy" in note for note in one.notes)
