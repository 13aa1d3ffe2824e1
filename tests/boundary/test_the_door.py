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
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kvmark
from kvmark import _engine, catalog
from kvmark.drivers import drivers
from kvmark.errors import KvmarkError, PlanError, RunError, SystemUnderTestError, UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records.model import COUNTINGS, RunRecord
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

ONE_SECOND = 10**9
WORKLOADS = {name: catalog.load(name) for name in catalog.names()}


def make_plan(workload: str, system: str, **fields: Any) -> Plan:
    """The plan of a ready workload on a system, with these fields of its spec."""
    url = parse_system_url(system)
    given: dict[str, Any] = {"load": "never", **fields}
    return compile_run(RunSpec(workload=catalog.load(workload), system=url, **given), cores=2)


def endless(system: str = "null:") -> Plan:
    """A plan of an hour."""
    return make_plan("ycsb/c", system, duration_ns=3600 * ONE_SECOND, interval_ns=10**7)


def carry_out(
    plan: Plan,
    folder: Path,
    progress: Callable[[str], object] = str,
    stops: Callable[[], int] | None = None,
) -> Any:
    return json.loads(_engine.run(plan.to_json(), folder, progress, None, stops))


def test_the_build_has_python_s_version_a_profile_and_drivers() -> None:
    assert kvmark.__version__ == _engine.version == importlib.metadata.version("kvmark")
    assert _engine.build_profile == "release"
    assert {"null", "sim", "rocksdb"} <= set(drivers())


def test_the_clock_is_calibrated_and_the_host_s_part_of_a_stamp_s_lag_measured() -> None:
    stamp_ns, resolution_ns = _engine.calibrate()
    assert stamp_ns > 0
    # The resolution is better than a millisecond.
    assert resolution_ns < 10**6
    # Other programs can delay a measurement too long.
    measured = (_engine.stamp_lag() for _ in range(20))
    p50_ns, p99_ns = next(lags for lags in measured if lags is not None)
    assert 0 < p50_ns <= p99_ns


def test_the_stub_matches_the_module(tmp_path: Path) -> None:
    # The package around the module is checked elsewhere, and takes long.
    alone = tmp_path / "mypy.ini"
    alone.write_text("[mypy]\nfollow_imports = skip\n")
    stubtest = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", str(alone)]
    python = str(Path(kvmark.__file__).parent.parent)
    found = subprocess.run(
        [*stubtest, "kvmark._engine"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": python, "MYPYPATH": python},
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


@given(
    name=st.sampled_from(sorted(WORKLOADS)),
    clients=st.integers(1, 2**32 - 1),
    seed=st.integers(0, 2**64 - 1),
    records=st.integers(1, 2**62),
    rate=st.none() | st.floats(1, 2**50),
    timeout=st.none() | st.integers(1, 2**62),
)
@example("ycsb/c", 1, 0, 1, 90071992.66796875, None)
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
def test_an_invalid_plan_is_rejected_by_name(change: dict[str, Any], named: str) -> None:
    plan = json.loads(make_plan("ycsb/a", "null:", operations=10).to_json())
    with pytest.raises(PlanError, match=named):
        _engine.check_plan(json.dumps({**plan, **change}))


def test_a_text_that_is_no_plan_is_a_plan_error(tmp_path: Path) -> None:
    for text in ("", "[]", "{"):
        with pytest.raises(PlanError):
            _engine.run(text, tmp_path, str)
    assert list(tmp_path.iterdir()) == []


def test_a_run_returns_a_record_that_python_reads(tmp_path: Path) -> None:
    answer = carry_out(make_plan("ycsb/a", "null:", operations=1000), tmp_path)
    assert answer["failure"] is None
    record = RunRecord.model_validate(answer["record"])
    assert sum(total.count for total in record.totals) == 1000
    assert answer["record"]["counting"] == _engine.counting == max(COUNTINGS)
    opened = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])
    assert opened["counting"] == _engine.counting
    assert {path.name for path in tmp_path.iterdir()} >= {"events.jsonl", "histograms.hlog"}


def test_progress_is_reported_about_once_per_interval(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    lengths = {"duration_ns": ONE_SECOND, "interval_ns": ONE_SECOND // 10}
    plan = make_plan("ycsb/c", "sim:?clock=virtual", **lengths)
    carry_out(plan, tmp_path, lambda text: told.append(json.loads(text)))
    assert told
    assert told[-1]["phase_name"] == "measure"
    counts = [one["completed"] for one in told]
    assert counts == sorted(counts)


def test_the_errors_of_the_engine_are_python_s_classes(tmp_path: Path) -> None:
    for system, folder, kind in (
        ("sim:?servers=none", tmp_path, UsageError),
        (f"rocksdb:{tmp_path}/not/there", tmp_path, SystemUnderTestError),
        ("null:", tmp_path / "none", RunError),
    ):
        with pytest.raises(KvmarkError) as raised:
            carry_out(make_plan("ycsb/c", system, operations=1), folder)
        assert raised.type is kind


@pytest.mark.parametrize("callback", ["progress", "stops"])
def test_a_callback_that_raises_ends_the_run_with_its_error(tmp_path: Path, callback: str) -> None:
    def fails(*_: str) -> int:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        carry_out(endless(), tmp_path, **{callback: fails})


def test_other_threads_of_python_run_while_the_engine_does(tmp_path: Path) -> None:
    answered = threading.Event()
    other = threading.Thread(target=answered.set)

    def progress(_: str) -> None:
        if not other.ident:
            other.start()
        elif answered.is_set():
            raise LookupError("enough")

    with pytest.raises(LookupError):
        carry_out(endless(), tmp_path, progress)
    other.join()


def test_a_run_that_is_stopped_twice_does_not_drain(tmp_path: Path) -> None:
    # Each operation takes an hour.
    plan = make_plan("ycsb/c", "sim:?service=constant&mean_us=3600000000", duration_ns=ONE_SECOND)
    plan = plan.model_copy(update={"drain_limit_ns": 3600 * ONE_SECOND})
    answer = carry_out(plan, tmp_path, stops=lambda: 2)
    (group,) = answer["record"]["phases"][-1]["groups"]
    assert group["abandoned"] == 1
