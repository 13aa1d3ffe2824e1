"""Folders of runs as the engine leaves them, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.records import Header, Records, Run, RunFolder
from kvmark.records.histograms import encode, time_record
from kvmark.stats import Counts
from runs_on_disk import close

SECOND = 1_000_000_000
SECONDS = 3
TIMES = {"service": "st", "response": "rt", "wait": "wt"}

PLAN = {
    "name": "ycsb/a",
    "system": {"driver": "rocksdb", "options": {}},
    "groups": [{"name": "clients"}],
    "phases": [{"name": "measure", "groups": [{"group": 0, "operations": None}]}],
}
HEADER = Header(
    command=("kvmark", "ycsb"),
    spec={"workload": "a"},
    plan=PLAN,
    host={"cores": 2},
    versions={"kvmark": "0.1.0"},
)


def values(second: int) -> list[int]:
    """The times recorded in a second, in nanoseconds."""
    return [1000 * (second + 1) + step for step in range(100)]


def engine() -> dict[str, Any]:
    """The engine's record of a run with 100 reads in each second."""
    recorded = [value for second in range(SECONDS) for value in values(second)]
    count = len(recorded)
    time = time_record(Counts.of(recorded), min(recorded), max(recorded))
    total = {
        "phase": 0, "group": "clients", "operation": "READ", "part": False, "outcome": "ok",
        "count": count, "in_window": count, "rows": count, **dict.fromkeys(TIMES, time),
    }  # fmt: skip
    group = {"group": "clients", "issued": count, "completed": count, "ok": count, "frontier": 9}
    phase = {
        "index": 0, "name": "measure", "start_ns": 0, "end_ns": SECONDS * SECOND,
        "drained_ns": SECONDS * SECOND, "stopped_by": "duration", "groups": [group],
    }  # fmt: skip
    return {
        "started_wall_ns": 1_795_232_769 * SECOND,
        "system": {"system": "RocksDB", "version": "10.4.2", "configuration": {}},
        "capabilities": {"execution": "blocking", "embedded": True},
        "clock": {"source": "tsc", "stamp_ns": 11.0, "resolution_ns": 1},
        "phases": [phase],
        "totals": [total],
        "notices": [],
        "interrupted": False,
    }


def write_logs(folder: Path) -> None:
    """Writes the logs that the engine appends second by second."""
    intervals: list[dict[str, Any]] = []
    histograms = ["#[Histogram log format version 1.3]"]
    for second in range(SECONDS):
        recorded = values(second)
        row = {
            "phase": 0, "phase_name": "measure", "drain": False, "start_ns": second * SECOND,
            "end_ns": (second + 1) * SECOND, "group": "clients", "part": False, "count": 100,
            "rows": 100,
        }  # fmt: skip
        issued = {"issued": 100 * (second + 1), "late": 0, "in_flight": 1, "frontier": 9}
        figures = {
            f"{name}_ns_{end.__name__}": end(recorded) for name in TIMES for end in (min, max)
        }
        intervals.append({**row, "operation": "TOTAL", "outcome": "any", **issued})
        intervals.append({**row, "operation": "READ", "outcome": "ok", **figures})
        encoded = encode(Counts.of(recorded))
        histograms += [f"Tag=READ-{tag},{second}.0,1.0,0.001,{encoded}" for tag in TIMES.values()]
    notice = {"at_ns": 5, "kind": "notice", "code": "x", "phase": 0, "message": "X."}
    events = [{"at_ns": 0, "kind": "phase_started", "phase": 0, "name": "measure"}, notice]
    (folder / "intervals.jsonl").write_text(_lines(intervals))
    (folder / "histograms.hlog").write_text("\n".join(histograms) + "\n")
    (folder / "events.jsonl").write_text(_lines(events))


def _lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "runs")


@pytest.fixture
def running(records: Records) -> Callable[[], RunFolder]:
    """Makes a running run with three seconds in its logs."""

    def make() -> RunFolder:
        folder = records.new("ycsb/a")
        folder.begin(HEADER)
        write_logs(folder.path)
        return folder

    return make


@pytest.fixture
def killed(running: Callable[[], RunFolder]) -> Path:
    """The folder of such a run whose process no longer exists."""
    folder = running()
    folder.release()
    return folder.path


@pytest.fixture
def engine_record() -> dict[str, Any]:
    """The engine's result."""
    return engine()


@pytest.fixture
def closed(running: Callable[[], RunFolder], engine_record: dict[str, Any]) -> Run:
    """Such a run, closed."""
    return close(running(), engine_record)
