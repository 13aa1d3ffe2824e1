"""The engine's overhead and the speed of a core are measured."""

import json
import os
import time
from typing import Any

import pytest

from kvmark.run import sampler
from kvmark.run.context import engine_overhead, overhead_of
from kvmark.run.generator import LocalGenerator
from kvmark.run.sampler import fixed_work_ns
from plans import plan_of


@pytest.mark.parametrize(
    ("costs_ns", "overhead_ns", "disturbed_ns"),
    [
        ([150.0, 148.04, 155.0, 151.06, 170.0], 148.0, {}),
        # One disturbed calibration.
        ([150.0, 149.0, 105_108.0, 151.0, 152.0], 149.0, {}),
        # Most are disturbed a little.
        ([150.0, 280.0, 260.0, 270.0, 290.0], 150.0, {}),
        ([150.0, 105_108.0, 90_000.0, 151.0, 99_000.0], None, {"least": 150.0, "median": 9e4}),
    ],
)
def test_the_overhead_is_the_minimum_unless_most_calibrations_were_disturbed(
    costs_ns: list[float], overhead_ns: float | None, disturbed_ns: dict[str, float]
) -> None:
    more = {f"engine_overhead_ns_{name}": value for name, value in disturbed_ns.items()}
    assert overhead_of(costs_ns) == {"engine_overhead_ns_per_operation": overhead_ns, **more}


@pytest.mark.parametrize("workload", ["ycsb/a", "ycsb/e"])
def test_the_engine_is_calibrated_with_the_plan_s_own_operations(workload: str) -> None:
    with LocalGenerator() as generator:
        found = engine_overhead(plan_of(workload), generator)
    more = {"engine_overhead_ns_least", "engine_overhead_ns_median"}
    assert set(found) - more == {"engine_overhead_ns_per_operation"}


def test_a_calibration_with_large_values_has_a_time_limit() -> None:
    plans = []

    class Slow(LocalGenerator):
        def run(self, plan: str, *_: Any, **__: Any) -> dict[str, Any]:
            plans.append(json.loads(plan))
            window = {"start_ns": 0, "end_ns": 60_000_000, "groups": [{"completed": 3}]}
            return {"record": {"phases": [window]}}

    found = engine_overhead(plan_of("ycsb/a"), Slow())
    assert found == {"engine_overhead_ns_per_operation": 20e6}
    (phase,) = plans[0]["phases"]
    assert phase["duration_ns"] == 50_000_000


def test_it_runs_on_the_named_core_and_restores_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    seen: list[set[int]] = []
    monkeypatch.setattr(sampler, "_work", lambda: lambda: seen.append(os.sched_getaffinity(0)))
    fixed_work_ns(core)
    fixed_work_ns()
    fixed_work_ns(4095)
    assert seen == [{core}] * 2 + [before] * 4
    assert os.sched_getaffinity(0) == before


def test_time_without_a_core_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_work", lambda: lambda: time.sleep(0.1))
    assert 0 < fixed_work_ns() < 50_000_000
