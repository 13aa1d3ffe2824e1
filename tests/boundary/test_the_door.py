"""The boundary between Python and Rust: plans, records and errors."""

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvmark
from kvmark import _engine, catalog
from kvmark.drivers import drivers
from kvmark.errors import PlanError, RunError, SystemUnderTestError, UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records.model import COUNTINGS, RunRecord
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

MakePlan = Callable[..., Plan]
ONE_SECOND = 10**9
WORKLOADS = {name: catalog.load(name) for name in catalog.names()}


def ignore(_: str) -> None: ...


def carry_out(
    plan: Plan,
    folder: Path,
    progress: Callable[[str], object] = ignore,
    stops: Callable[[], int] | None = None,
) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_engine.run(plan.to_json(), folder, progress, None, stops))
    return answer


def test_the_build_has_python_s_version_a_profile_and_drivers() -> None:
    assert kvmark.__version__ == _engine.version == importlib.metadata.version("kvmark")
    assert _engine.build_profile == "release"
    assert {"null", "sim", "rocksdb"} <= set(drivers())


def test_the_clock_is_calibrated_and_the_host_s_part_of_a_stamp_s_lag_measured() -> None:
    stamp_ns, resolution_ns = _engine.calibrate()
    assert stamp_ns > 0
    # The resolution is better than a millisecond.
    assert resolution_ns < 10**6
    p50_ns, p99_ns = _engine.stamp_lag()
    assert 0 < p50_ns <= p99_ns


def test_the_stub_matches_the_module(tmp_path: Path) -> None:
    # The package around the module is checked elsewhere, and takes long.
    alone = tmp_path / "mypy.ini"
    alone.write_text("[mypy]\nfollow_imports = skip\n")
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", str(alone)]
    command.append("kvmark._engine")
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert found.returncode == 0, found.stdout + found.stderr


@given(
    name=st.sampled_from(sorted(WORKLOADS)),
    clients=st.integers(1, 2**32 - 1),
    seed=st.integers(0, 2**64 - 1),
    records=st.integers(1, 2**62),
    rate=st.none() | st.integers(1, 2**50).map(float),
    timeout=st.none() | st.integers(1, 2**62),
)
@settings(max_examples=60)
def test_the_engine_reads_python_s_plans_unchanged(
    name: str, clients: int, seed: int, records: int, rate: float | None, timeout: int | None
) -> None:
    # Where there are several groups, each has its own in the workload's file.
    alone = len(WORKLOADS[name].groups) < 2
    spec = RunSpec(
        workload=WORKLOADS[name],
        system=parse_system_url("sim:?servers=3"),
        clients=clients if alone else None,
        seed=seed,
        records=records,
        rate=rate if alone else None,
        timeout_ns=timeout,
        duration_ns=ONE_SECOND,
    )
    text = compile_run(spec, cores=2).to_json()
    assert json.loads(_engine.check_plan(text)) == json.loads(text)


def test_the_engine_reads_fractions_unchanged(make_plan: MakePlan) -> None:
    text = make_plan("ycsb/c", "null:", rate=90071992.66796875, duration_ns=ONE_SECOND).to_json()
    assert json.loads(_engine.check_plan(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 99}, "format"),
        ({"unknown": 1}, "unknown"),
        ({"interval_ns": 0}, "interval"),
        ({"groups": []}, "group"),
        ({"workers": 0}, "worker"),
    ],
)
def test_an_invalid_plan_is_rejected_by_name(
    make_plan: MakePlan, change: dict[str, Any], named: str
) -> None:
    plan = json.loads(make_plan("ycsb/a", "null:", operations=10).to_json())
    with pytest.raises(PlanError, match=named):
        _engine.check_plan(json.dumps({**plan, **change}))


def test_a_text_that_is_no_plan_is_a_plan_error(tmp_path: Path) -> None:
    for text in ("", "[]", "{"):
        with pytest.raises(PlanError):
            _engine.run(text, tmp_path, ignore)
    assert list(tmp_path.iterdir()) == []


def test_a_run_returns_a_record_that_python_reads(make_plan: MakePlan, tmp_path: Path) -> None:
    answer = carry_out(make_plan("ycsb/a", "null:", operations=1000), tmp_path)
    assert answer["failure"] is None
    record = RunRecord.model_validate(answer["record"])
    assert sum(total.count for total in record.totals) == 1000
    assert answer["record"]["counting"] == _engine.counting == max(COUNTINGS)
    opened = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])
    assert opened["counting"] == _engine.counting
    assert {path.name for path in tmp_path.iterdir()} >= {"events.jsonl", "histograms.hlog"}


def test_progress_is_reported_about_once_per_interval(make_plan: MakePlan, tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    lengths = {"duration_ns": ONE_SECOND, "interval_ns": ONE_SECOND // 10}
    plan = make_plan("ycsb/c", "sim:?clock=virtual", **lengths)
    carry_out(plan, tmp_path, lambda text: told.append(json.loads(text)))
    assert told
    assert told[-1]["phase_name"] == "measure"
    counts = [one["completed"] for one in told]
    assert counts == sorted(counts)


def test_the_errors_of_the_engine_are_python_s_classes(make_plan: MakePlan, tmp_path: Path) -> None:
    cases: list[tuple[str, Path, type[Exception]]] = [
        ("sim:?servers=none", tmp_path, UsageError),
        (f"rocksdb:{tmp_path}/not/there", tmp_path, SystemUnderTestError),
        ("null:", tmp_path / "none", RunError),
    ]
    for system, folder, kind in cases:
        with pytest.raises(kind) as raised:
            carry_out(make_plan("ycsb/c", system, operations=1), folder)
        assert type(raised.value) is kind


@pytest.mark.parametrize("callback", ["progress", "stops"])
def test_a_callback_that_raises_ends_the_run_with_its_error(
    make_plan: MakePlan, tmp_path: Path, callback: str
) -> None:
    def fails(*_: str) -> int:
        raise LookupError("mine")

    plan = make_plan("ycsb/c", "null:", duration_ns=3600 * ONE_SECOND, interval_ns=10**7)
    with pytest.raises(LookupError, match="mine"):
        carry_out(plan, tmp_path, **{callback: fails})


def test_other_threads_of_python_run_while_the_engine_does(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    answered = threading.Event()
    turns = 0

    def progress(_: str) -> None:
        nonlocal turns
        turns += 1
        if answered.wait(timeout=0):
            raise LookupError("enough")

    plan = make_plan("ycsb/c", "null:", duration_ns=3600 * ONE_SECOND, interval_ns=10**7)
    other = threading.Thread(target=answered.set)
    other.start()
    with pytest.raises(LookupError):
        carry_out(plan, tmp_path, progress)
    other.join()
    assert turns > 0


def environment() -> dict[str, str]:
    python = str(Path(kvmark.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": python, "MYPYPATH": python}


@pytest.mark.parametrize("system", ["null:", "sim:?mean_us=100"])
def test_a_stopped_run_keeps_the_measured_data(
    make_plan: MakePlan, tmp_path: Path, system: str
) -> None:
    # Of an hour.
    plan = make_plan("ycsb/c", system, duration_ns=3600 * ONE_SECOND, interval_ns=5 * 10**7)
    asked: list[int] = []

    def stops() -> int:
        asked.append(1)
        return int(len(asked) > 3)

    answer = carry_out(plan, tmp_path, stops=stops)
    assert answer["record"]["interrupted"]
    assert answer["record"]["phases"][-1]["stopped_by"] == "cancelled"
    assert sum(total["count"] for total in answer["record"]["totals"]) > 0


def test_a_run_that_is_stopped_twice_does_not_drain(make_plan: MakePlan, tmp_path: Path) -> None:
    # Each operation takes an hour.
    plan = make_plan("ycsb/c", "sim:?service=constant&mean_us=3600000000", duration_ns=ONE_SECOND)
    plan = plan.model_copy(update={"drain_limit_ns": 3600 * ONE_SECOND})
    answer = carry_out(plan, tmp_path, stops=lambda: 2)
    (group,) = answer["record"]["phases"][-1]["groups"]
    assert group["abandoned"] == 1
