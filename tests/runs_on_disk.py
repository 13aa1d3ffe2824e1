"""Builders of runs in every state, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvmark.analysis.verdict.judge import judge, save_verdict
from kvmark.records import Header, Records, Run, RunFolder, TimeName, close_run
from kvmark.records.histograms import time_record
from kvmark.stats import Counts

SECOND = 1_000_000_000
OPERATIONS = 1_000
PLAN: dict[str, Any] = {
    "name": "ycsb/c",
    "system": {"driver": "null", "options": {}},
    "seeds": {"schedule": 1, "keys": 2, "values": 3, "mix": 4},
    "dataset": {"count": 100, "fields": {"count": 10, "length": {"size": 100}}},
    "groups": [
        {
            "name": "clients",
            "clients": 2,
            "arrival": {"process": "closed", "think_time_ns": 0},
            "mix": [{"kind": "read", "weight": 1.0}],
        }
    ],
    "phases": [{"name": "measure", "duration_ns": 4 * SECOND, "groups": [{"group": 0}]}],
}


def times(factor: int = 1) -> dict[str, Any]:
    values = [factor * (10_000 + 10 * n) for n in range(OPERATIONS)]
    return time_record(Counts.of(values), values[0], values[-1])


def interval_rows(second: int, *, failed: int = 0) -> list[dict[str, Any]]:
    """The rows of one second, as the engine writes them."""
    row = {
        "phase": 0, "phase_name": "measure", "drain": False, "group": "clients", "part": False,
        "start_ns": second * SECOND, "end_ns": (second + 1) * SECOND, "rows": OPERATIONS,
    }  # fmt: skip
    figures = {
        f"{time}_ns_{name}": value
        for time in ("service", "response", "wait")
        for name, value in {"min": 10_000, "mean": 15e3, "p50": 15_000, "p90": 19_000,
                            "p95": 19_500, "p99": 19_900, "p999": 19_990, "max": 20_000}.items()
    }  # fmt: skip
    issued = (second + 1) * (OPERATIONS + failed)
    totals = {"issued": issued, "late": 0, "in_flight": 2, "frontier": 100}
    rows = [
        {**row, "operation": "TOTAL", "outcome": "any", "count": OPERATIONS + failed, **figures,
         **totals},
        {**row, "operation": "READ", "outcome": "ok", "count": OPERATIONS, **figures},
    ]  # fmt: skip
    if failed:
        rows.append({**row, "operation": "READ", "outcome": "timeout", "count": failed, **figures})
    return rows


def resource_rows(second: int) -> list[dict[str, Any]]:
    """The samples of the generator and of a server in a second."""
    shared = {
        "at_wall_ns": (1_795_232_769 + second) * SECOND,
        "disk_read_bytes": 0, "disk_written_bytes": 4096 * second,
        "network_sent_bytes": 0, "network_received_bytes": 0,
    }  # fmt: skip
    return [
        {**shared, "node": "generator", "cpu_user_s": 0.5 * second, "cpu_system_s": 0.1 * second,
         "resident_bytes": 50_000_000 + second, "machine_cpu_percent": 60.0},
        {**shared, "node": "primary-1", "cpu_user_s": 0.25 * second, "cpu_system_s": 0.0,
         "resident_bytes": 90_000_000, "machine_cpu_percent": None},
    ]  # fmt: skip


def total_record(operation: str, count: int, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    """A total of the measured phase, without its times."""
    place = {"phase": 0, "group": "clients", "operation": operation, "part": False}
    counts = {"outcome": outcome, "count": count, "in_window": count, "rows": count}
    return {**place, **counts, **more}


def engine_record(seconds: int, factor: int = 1) -> dict[str, Any]:
    n = seconds * OPERATIONS
    recorded = dict.fromkeys(("service", "response", "wait"), times(factor))
    group = {"group": "clients", "issued": n, "completed": n, "ok": n}
    return {
        "started_wall_ns": 1_795_232_769 * SECOND,
        "system": {"system": "null", "version": "0.1.0", "configuration": {}},
        "capabilities": {"execution": "asynchronous", "embedded": True},
        "clock": {"source": "tsc", "stamp_ns": 11.0, "resolution_ns": 1},
        "phases": [
            {"index": 0, "name": "measure", "start_ns": 0, "end_ns": seconds * SECOND,
             "stopped_by": "duration", "groups": [group]}
        ],
        "totals": [total_record("READ", OPERATIONS, **recorded)],
    }  # fmt: skip


def close(folder: RunFolder, engine: dict[str, Any]) -> Run:
    """Ends a running run with the engine's record, and closes it."""
    folder.end(engine)
    return close_run(folder.path)


def histogram(run: Run, phase: int = 0, time: TimeName = "response") -> Counts:
    """The times of a phase's reads, whatever their group and outcome."""
    reads = (total for total in run.totals(phase) if total.operation == "READ")
    return Counts.merge(run.times(total, time) for total in reads)


def begun(
    records: Records, *, name: str = "ycsb/c", tags: tuple[str, ...] = (), **parts: Any
) -> RunFolder:
    """A running run: this process writes it. Its plan has these parts."""
    folder = records.new(name)
    plan = {**PLAN, "name": name, **parts}
    command = ("kvmark", "run", name)
    folder.begin(
        Header(
            command=command, plan=plan, host={"cores": 2}, versions={"kvmark": "0.1.0"}, tags=tags
        )
    )
    started = {"kind": "phase_started", "phase": 0, "name": "measure"}
    folder.append_event({"at_ns": 0, "kind": "opened", "started_wall_ns": 1_795_232_769 * SECOND})
    folder.append_event({"at_ns": 0, **started})
    return folder


def write_second(folder: RunFolder, second: int, *, failed: int = 0) -> None:
    """Appends the rows of a second to the logs."""
    lines = "".join(json.dumps(row) + "\n" for row in interval_rows(second, failed=failed))
    with (folder.path / "intervals.jsonl").open("a") as log:
        log.write(lines)
    folder.append_resources(resource_rows(second))


def closed(records: Records, *, factor: int = 1, **parts: Any) -> Run:
    """A closed run of four seconds with its verdict; the parts are those of `begun`."""
    folder = begun(records, **parts)
    for second in range(4):
        write_second(folder, second)
    run = close(folder, engine_record(4, factor))
    save_verdict(records, run, judge(run))
    return run


def two_runs(folder: Path) -> Records:
    """Records with a tagged run of ycsb/a, and one of ycsb/e."""
    records = Records(folder / "runs")
    closed(records, tags=("nightly",))
    closed(records, name="ycsb/e", factor=10)
    return records


def snapshot(root: Path) -> dict[str, bytes]:
    """The content of every file below a folder."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def killed(folder: RunFolder) -> RunFolder:
    """The same run as if its process had been killed."""
    folder.release()
    return folder
