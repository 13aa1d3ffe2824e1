"""Verdicts and capacity searches attribute a stall of the system to the system."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kvmark._engine")

from kvmark import catalog
from kvmark.analysis.verdict.judge import judge
from kvmark.experiment.capacity import judge_rate
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, close_run
from kvmark.run.context import RunContext
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.objective import parse_objective
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

SYSTEM = "sim:?clock=virtual&service=constant&mean_us=100&stall=5.3+0.2"


def stalled(folder: Path, **more: Any) -> Run:
    """A thousand operations a second for ten seconds, of which the system stands still for 0.2."""
    spec = RunSpec(
        workload=catalog.load("ycsb/c"),
        system=parse_system_url(SYSTEM),
        clients=16,
        rate=1000,
        duration_ns=10 * 10**9,
        load="never",
        drain_limit_ns=10**9,
        **more,
    )
    with LocalGenerator() as generator:
        setting = RunContext((), generator, Records(folder), host={}, versions={})
        carried = execute(compile_run(spec), spec.as_json(), setting, lambda *_: None)
    return close_run(carried.folder.path)


def test_a_stall_of_the_system_is_a_concurrency_limit_and_no_late_schedule(
    tmp_path: Path,
) -> None:
    run = stalled(tmp_path)
    (group,) = run.counted[0].groups
    assert group.late > 150
    assert group.late_busy == group.late
    codes = {reason.code for reason in judge(run).reasons}
    assert "concurrency_limit" in codes
    assert "schedule_late" not in codes


def test_a_missed_rate_during_a_stall_is_a_miss_of_the_system(tmp_path: Path) -> None:
    run = stalled(tmp_path)
    objective = parse_objective("p99<1ms")
    one = judge_rate(Records(tmp_path), [run.path.name], 1000, "confirm", [objective], 16)
    assert one.outcome == "missed"
    assert any("clients were busy" in note for note in one.notes)
