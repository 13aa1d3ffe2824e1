"""Folders of runs as the engine leaves them, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.records import Header, Records, RunFolder
from kvmark.records.histograms import encode
from kvmark.stats import Counts

SECOND = 1_000_000_000

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
    """What was recorded in a second, in nanoseconds."""
    return [1000 * (second + 1) + step for step in range(100)]


def time(recorded: list[int]) -> dict[str, Any]:
    counts = Counts.of(recorded)
    named = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
    return {
        "min": min(recorded),
        "mean": sum(recorded) / len(recorded),
        **{name: counts.quantile(q) for name, q in named.items()},
        "max": max(recorded),
        "stddev": counts.deviation(),
        "histogram": encode(counts),
    }


def engine(seconds: int = 3) -> dict[str, Any]:
    """The engine's record of a run of so many seconds with 100 reads in each."""
    recorded = [value for second in range(seconds) for value in values(second)]
    count = len(recorded)
    total = {
        "phase": 0,
        "group": "clients",
        "operation": "READ",
        "part": False,
        "outcome": "ok",
        "count": count,
        "in_window": count,
        "rows": count,
        **{name: time(recorded) for name in ("service", "response", "wait")},
    }
    group = {"group": "clients", "issued": count, "completed": count, "ok": count, "frontier": 9}
    phase = {
        "index": 0,
        "name": "measure",
        "start_ns": 0,
        "end_ns": seconds * SECOND,
        "drained_ns": seconds * SECOND,
        "stopped_by": "duration",
        "groups": [group],
    }
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


def write_logs(folder: Path, seconds: int = 3) -> None:
    """What the engine appends, second by second."""
    intervals, histograms = (
        [],
        ["#[Histogram log format version 1.3]", "#[StartTime: 1795232769.0 (seconds since epoch)]"],
    )
    for second in range(seconds):
        recorded = values(second)
        row = {
            "phase": 0,
            "phase_name": "measure",
            "drain": False,
            "start_ns": second * SECOND,
            "end_ns": (second + 1) * SECOND,
            "group": "clients",
            "part": False,
            "count": 100,
            "rows": 100,
        }
        issued = {"issued": 100 * (second + 1), "late": 0, "in_flight": 1, "frontier": 9}
        figures = {
            f"{name}_ns_{end}": pick(recorded)
            for name in ("service", "response", "wait")
            for end, pick in (("min", min), ("max", max))
        }
        intervals.append({**row, "operation": "TOTAL", "outcome": "any", **issued})
        intervals.append({**row, "operation": "READ", "outcome": "ok", **figures})
        for end in ("st", "rt", "wt"):
            encoded = encode(Counts.of(recorded))
            histograms.append(f"Tag=READ-{end},{second}.000000000,1.000000000,0.001,{encoded}")
    events = [
        {"at_ns": 0, "kind": "phase_started", "phase": 0, "name": "measure"},
        {
            "at_ns": 5,
            "kind": "notice",
            "code": "x",
            "phase": 0,
            "message": "X.",
            "evidence": {},
            "advice": "Y.",
        },
    ]
    (folder / "intervals.jsonl").write_text(_lines(intervals))
    (folder / "histograms.hlog").write_text("\n".join(histograms) + "\n")
    (folder / "events.jsonl").write_text(_lines(events))


def _lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "runs")


@pytest.fixture
def header() -> Header:
    return HEADER


@pytest.fixture
def going(records: Records) -> Callable[[], RunFolder]:
    """Makes a run that goes: begun, three seconds in its logs."""

    def make() -> RunFolder:
        folder = records.new("ycsb/a")
        folder.begin(HEADER)
        write_logs(folder.path)
        return folder

    return make


@pytest.fixture
def engine_record() -> Callable[..., dict[str, Any]]:
    """Makes what the engine returns."""
    return engine


@pytest.fixture
def kill() -> Callable[[RunFolder], None]:
    """Makes a run look as if its process were gone."""
    return RunFolder.release
