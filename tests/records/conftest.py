"""Folders of runs as the engine leaves them, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs_on_disk
from kvmark.records import Records, Run, RunFolder
from kvmark.records.histograms import TIME_TAGS, encode, time_record
from kvmark.stats import Counts
from runs_on_disk import SECOND, begun, close, interval_rows


def values(second: int) -> list[int]:
    """The times recorded in a second, in nanoseconds: 100 reads."""
    return [1000 * (second + 1) + step for step in range(100)]


def write_logs(folder: Path) -> None:
    """Writes the logs that the engine appends second by second."""
    with (folder / "intervals.jsonl").open("w") as intervals:
        for second in range(3):
            own = {"count": 100, "rows": 100, "service_ns_mean": None}
            for time in TIME_TAGS:
                for end in (min, max):
                    own[f"{time}_ns_{end.__name__}"] = end(values(second))
            total, read = interval_rows(second)
            for row in ({**total, **own, "issued": 100 * (second + 1)}, {**read, **own}):
                intervals.write(json.dumps(row) + "\n")
    lines = ["#[Histogram log format version 1.3]"]
    for second in range(3):
        encoded = encode(Counts.of(values(second)))
        lines += [f"Tag=READ-{tag},{second}.0,1.0,0.001,{encoded}" for tag in TIME_TAGS.values()]
    (folder / "histograms.hlog").write_text("\n".join(lines) + "\n")


@pytest.fixture
def running(records: Records) -> Callable[[], RunFolder]:
    """Makes a running run with three seconds in its logs."""

    def make() -> RunFolder:
        folder = begun(records, name="ycsb/a")
        write_logs(folder.path)
        notice = {"at_ns": 5, "kind": "notice", "code": "x", "phase": 0, "message": "X."}
        folder.append_event(notice)
        return folder

    return make


@pytest.fixture
def killed(running: Callable[[], RunFolder]) -> Path:
    """The folder of such a run whose process no longer exists."""
    return runs_on_disk.killed(running()).path


@pytest.fixture
def engine_record() -> dict[str, Any]:
    """The engine's result: 100 reads in each second."""
    recorded = [value for second in range(3) for value in values(second)]
    time = time_record(Counts.of(recorded), min(recorded), max(recorded))
    record = runs_on_disk.engine_record(3)
    counts = dict.fromkeys(("count", "in_window", "rows"), len(recorded))
    record["totals"][0].update({**counts, **dict.fromkeys(TIME_TAGS, time)})
    record["phases"][0]["drained_ns"] = 3 * SECOND
    return record


@pytest.fixture
def closed(running: Callable[[], RunFolder], engine_record: dict[str, Any]) -> Run:
    """Such a run, closed."""
    return close(running(), engine_record)
