"""What the engine costs is measured several times, and not kept where the times are apart."""

import json
from typing import Any

import pytest

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.run.generator import LocalGenerator
from kvmark.run.setting import engine_overhead, overhead_of
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url


def test_calibrations_that_agree_are_kept_as_their_least() -> None:
    kept = overhead_of([150.0, 148.04, 155.0, 151.06, 170.0])
    assert kept == {"engine_overhead_ns_per_operation": 148.0}


def test_one_calibration_that_was_disturbed_has_no_say() -> None:
    assert overhead_of([150.0, 149.0, 105_108.0, 151.0, 152.0]) == {
        "engine_overhead_ns_per_operation": 149.0
    }


def test_a_machine_that_disturbs_most_calibrations_a_little_makes_the_engine_no_dearer() -> None:
    assert overhead_of([150.0, 280.0, 260.0, 270.0, 290.0]) == {
        "engine_overhead_ns_per_operation": 150.0
    }


def test_where_most_were_disturbed_none_is_kept_and_the_manifest_says_so() -> None:
    assert overhead_of([150.0, 105_108.0, 90_000.0, 151.0, 99_000.0]) == {
        "engine_overhead_ns_per_operation": None,
        "engine_overhead_ns_least": 150.0,
        "engine_overhead_ns_median": 90_000.0,
    }


@pytest.mark.parametrize("workload", ["ycsb/a", "ycsb/e"])
def test_the_engine_is_calibrated_with_the_plan_s_own_operations(workload: str) -> None:
    spec = RunSpec(workload=catalog.find(workload), system=parse_system_url("null:"))
    with LocalGenerator() as generator:
        found = engine_overhead(compile_run(spec), generator)
    assert set(found) in (
        {"engine_overhead_ns_per_operation"},
        {
            "engine_overhead_ns_per_operation",
            "engine_overhead_ns_least",
            "engine_overhead_ns_median",
        },
    )


def test_a_calibration_with_large_values_is_cut_off() -> None:
    plans = []

    class Slow(LocalGenerator):
        def run(self, plan: str, *_: Any, **__: Any) -> dict[str, Any]:
            plans.append(json.loads(plan))
            window = {"start_ns": 0, "end_ns": 60_000_000, "groups": [{"completed": 3}]}
            return {"record": {"phases": [window]}}

    spec = RunSpec(workload=catalog.find("ycsb/a"), system=parse_system_url("null:"))
    found = engine_overhead(compile_run(spec), Slow())
    assert found == {"engine_overhead_ns_per_operation": 20e6}
    (phase,) = plans[0]["phases"]
    assert phase["duration_ns"] == 50_000_000
