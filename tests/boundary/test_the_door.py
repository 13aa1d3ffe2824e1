"""The one door between Python and Rust: what goes down, what comes up, what is raised."""

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
PATIENCE_S = 300.0
WORKLOADS = {name: catalog.load(name) for name in catalog.names()}


def carry_out(plan: Plan, folder: Path, progress: Callable[[str], object]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_engine.run(plan.to_json(), folder, progress))
    return answer


def ignore(_: str) -> None: ...


def test_both_halves_have_one_version() -> None:
    assert kvmark.__version__ == _engine.version == importlib.metadata.version("kvmark")


def test_the_build_profile_can_be_read() -> None:
    assert _engine.build_profile == "release"


def test_every_driver_of_a_url_is_in_the_build() -> None:
    assert {"null", "sim", "rocksdb"} <= set(drivers())


def test_the_clock_is_calibrated() -> None:
    stamp_ns, resolution_ns = _engine.calibrate()
    assert stamp_ns > 0
    # One that can't tell milliseconds apart is none for this.
    assert resolution_ns < 10**6


def test_the_machines_own_part_of_a_stamps_lag_is_measured() -> None:
    measured = _engine.stamp_lag()
    assert measured is not None
    p50_ns, p99_ns = measured
    assert 0 < p50_ns <= p99_ns


def test_the_stub_says_what_the_module_has(tmp_path: Path) -> None:
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
def test_the_engine_reads_python_s_plans_as_they_were_written(
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


def test_the_engine_reads_every_fraction_as_it_was_written(make_plan: MakePlan) -> None:
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
def test_a_plan_that_makes_no_sense_is_refused_by_name(
    make_plan: MakePlan, change: dict[str, Any], named: str
) -> None:
    plan = json.loads(make_plan("ycsb/a", "null:", operations=10).to_json())
    with pytest.raises(PlanError, match=named):
        _engine.check_plan(json.dumps({**plan, **change}))


def test_what_is_no_plan_at_all_is_a_plan_error(tmp_path: Path) -> None:
    for text in ("", "[]", "{"):
        with pytest.raises(PlanError):
            _engine.run(text, tmp_path, ignore)
    assert list(tmp_path.iterdir()) == []


def test_a_run_comes_up_as_a_record_that_python_reads(make_plan: MakePlan, tmp_path: Path) -> None:
    answer = carry_out(make_plan("ycsb/a", "null:", operations=1000), tmp_path, ignore)
    assert answer["failure"] is None
    record = RunRecord.model_validate(answer["record"])
    assert sum(total.count for total in record.totals) == 1000
    assert {path.name for path in tmp_path.iterdir()} >= {"events.jsonl", "histograms.hlog"}


def test_progress_is_told_about_once_an_interval(make_plan: MakePlan, tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    plan = make_plan(
        "ycsb/c", "sim:?clock=virtual", duration_ns=ONE_SECOND, interval_ns=ONE_SECOND // 10
    )
    carry_out(plan, tmp_path, lambda text: told.append(json.loads(text)))
    assert told
    assert told[-1]["phase_name"] == "measure"
    counts = [one["completed"] for one in told]
    assert counts == sorted(counts)


def test_the_errors_of_the_engine_are_python_s_classes(make_plan: MakePlan, tmp_path: Path) -> None:
    cases: list[tuple[str, type[Exception]]] = [
        ("sim:?servers=none", UsageError),
        (f"rocksdb:{tmp_path}/not/there", SystemUnderTestError),
    ]
    for system, kind in cases:
        with pytest.raises(kind) as raised:
            carry_out(make_plan("ycsb/c", system, operations=1), tmp_path, ignore)
        assert type(raised.value) is kind
        assert getattr(errors, type(raised.value).__name__) is kind
    with pytest.raises(RunError):
        carry_out(make_plan("ycsb/c", "null:", operations=1), tmp_path / "none", ignore)


def test_a_progress_that_raises_ends_the_run_with_its_own_error(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    def progress(_: str) -> None:
        raise LookupError("mine")

    plan = make_plan("ycsb/c", "null:", duration_ns=3600 * ONE_SECOND, interval_ns=10**7)
    with pytest.raises(LookupError, match="mine"):
        carry_out(plan, tmp_path, progress)


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
def test_a_run_that_is_asked_to_stop_ends_and_keeps_what_was_measured(
    make_plan: MakePlan, tmp_path: Path, system: str
) -> None:
    # Of an hour.
    plan = make_plan("ycsb/c", system, duration_ns=3600 * ONE_SECOND, interval_ns=5 * 10**7)
    asked: list[int] = []

    def stops() -> int:
        asked.append(1)
        return int(len(asked) > 3)

    answer = json.loads(_engine.run(plan.to_json(), tmp_path, ignore, None, stops))
    assert answer["record"]["interrupted"]
    assert answer["record"]["phases"][-1]["stopped_by"] == "cancelled"
    assert sum(total["count"] for total in answer["record"]["totals"]) > 0


def test_a_run_that_is_asked_to_stop_twice_waits_for_nothing_in_flight(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    # Each operation takes an hour.
    plan = make_plan("ycsb/c", "sim:?service=constant&mean_us=3600000000", duration_ns=ONE_SECOND)
    plan = plan.model_copy(update={"drain_limit_ns": 3600 * ONE_SECOND})
    answer = json.loads(_engine.run(plan.to_json(), tmp_path, ignore, None, lambda: 2))
    (group,) = answer["record"]["phases"][-1]["groups"]
    assert group["abandoned"] == 1


def test_a_caller_whose_answer_fails_ends_the_run_with_its_own_error(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    plan = make_plan("ycsb/c", "sim:?mean_us=1000", duration_ns=3600 * ONE_SECOND)

    def stops() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _engine.run(plan.to_json(), tmp_path, ignore, None, stops)


def test_the_engine_says_how_it_counts(make_plan: MakePlan, tmp_path: Path) -> None:
    answer = carry_out(make_plan("ycsb/a", "null:", operations=1000), tmp_path, ignore)
    assert answer["record"]["counting"] == _engine.counting == max(COUNTINGS)
    opened = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])
    assert opened["counting"] == _engine.counting
