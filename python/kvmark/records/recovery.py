"""Closes runs that have ended, and recovers killed runs from their logs.

The engine appends complete lines once per interval, so a killed run lacks at most its last
interval. Data that the engine reports only at the end, such as CPU time, stays unknown. The writer
is another module, because tables need Polars, which is slow to import.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.files import read_events
from kvmark.records.histograms import (
    LAG_TAG,
    TIME_TAGS,
    log_lines,
    merge_log,
    phase_prefix,
    series_tag,
    time_record,
)
from kvmark.records.intervals import SCHEMA, TIMED, read_log, to_parquet
from kvmark.records.run import Run
from kvmark.records.writer import Running, report_write_errors, write_end
from kvmark.removal import remove_file
from kvmark.stats import Counts

_READ_ONLY = 0o400


def close_run(folder: Path) -> Run:
    """Closes a run that has ended: writes its tables, names its manifest, removes its logs.

    Only reads a run that is closed already.

    Raises:
        RecordsError: the run hasn't ended, or its logs can't be read.
        RunError: a file can't be written; the logs are kept and the run can be closed later.
    """
    with _exclusive(folder):
        return _close(folder)


def recover_run(folder: Path) -> Run:
    """Closes a killed run with the data of its logs; closes any other run as `close_run`.

    Raises:
        RecordsError: a process still writes the run, or its logs can't be read.
        RunError: a file can't be written; the logs are kept and the run can be recovered later.
    """
    with _exclusive(folder):
        if not any((folder / name).exists() for name in (files.MANIFEST, files.ENDED)):
            running = Running.read(folder)
            if running.writer.writes(folder):
                raise RecordsError(
                    f"run {folder.name} is still going in process {running.writer.pid}: wait until"
                    " it ends or stop it"
                )
            record = record_of_logs(folder, running.plan, running.created)
            write_end(folder, running, record, "recovered")
        return _close(folder)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Waits for other processes that close the same run."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise RecordsError(f"the folder {folder} can't be opened: {problem.strerror}") from problem
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _close(folder: Path) -> Run:
    with report_write_errors(folder):
        if (folder / files.ENDED).exists():
            intervals = read_log(files.whole_lines(folder / files.INTERVAL_LOG), SCHEMA)
            files.write_atomically(folder / files.INTERVALS, to_parquet(intervals))
            resources = read_log(files.whole_lines(folder / files.RESOURCE_LOG))
            if resources.height:
                files.write_atomically(folder / files.RESOURCES, to_parquet(resources))
            (folder / files.ENDED).replace(folder / files.MANIFEST)
            files.sync_folder(folder)
        run = Run.open(folder)
        for name in files.LOGS:
            remove_file(folder / name)
        for name in files.CLOSED_FILES:
            if (folder / name).exists():
                (folder / name).chmod(_READ_ONLY)
        files.sync_folder(folder)
    return run


def record_of_logs(folder: Path, plan: Mapping[str, Any], created: str) -> dict[str, Any]:
    """The engine's record as far as the logs of a folder contain it."""
    intervals = read_log(files.whole_lines(folder / files.INTERVAL_LOG), SCHEMA)
    events = read_events(folder / files.EVENTS)
    histograms = files.whole_lines(folder / files.HISTOGRAMS).decode(errors="replace")
    lines = list(log_lines(histograms))
    several_groups = len(plan.get("groups", ())) > 1
    phases: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for keys, rows in intervals.group_by("phase", "phase_name", maintain_order=True):
        index, name = int(str(keys[0])), str(keys[1])
        # Half a nanosecond absorbs the rounding of seconds in the log.
        start_s = (min(rows["start_ns"].to_list()) - 0.5) / 1e9
        end_s = (max(rows["end_ns"].to_list()) - 0.5) / 1e9
        merged = merge_log(line for line in lines if start_s <= line.start_s < end_s)
        lag = _lag(merged.get(f"{phase_prefix(name)}{LAG_TAG}"))
        phases.append({**_phase(index, name, rows, events), "generator_lag": lag})
        totals += _totals(index, name, rows, merged, several_groups=several_groups)
    opened = next((event for event in events if event.get("kind") == "opened"), {})
    driver = plan.get("system", {}).get("driver", "unknown")
    created_ns = int(datetime.fromisoformat(created).timestamp() * 1e9)
    return {
        "counting": opened.get("counting"),
        "started_wall_ns": opened.get("started_wall_ns", created_ns),
        "system": opened.get("system", {"system": driver, "version": "unknown"}),
        "capabilities": opened.get("capabilities"),
        "clock": opened.get("clock"),
        "phases": phases,
        "totals": totals,
        "notices": [event for event in events if event.get("kind") == "notice"],
        "interrupted": any(event.get("kind") == "interrupted" for event in events),
    }


def _phase(
    index: int, name: str, rows: pl.DataFrame, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    own_events = [event for event in events if event.get("phase") == index]
    ended = next((event for event in own_events if event.get("kind") == "phase_ended"), {})
    continued = next((event for event in own_events if event.get("code") == "load_went_on"), {})
    window = rows.filter(~pl.col("drain"))
    window = rows if window.is_empty() else window
    return {
        "index": index,
        "name": name,
        "start_ns": min(rows["start_ns"].to_list()),
        "end_ns": ended.get("at_ns", max(window["end_ns"].to_list())),
        "drained_ns": max(rows["end_ns"].to_list()),
        "stopped_by": ended.get("stopped_by", "killed"),
        "groups": _groups(rows),
        "records_found": continued.get("evidence", {}).get("records_found"),
    }


def _groups(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The operations of each group."""
    is_total = pl.col("operation") == "TOTAL"
    is_ok = (pl.col("outcome") == "ok") & ~pl.col("part")
    groups = rows.sort("end_ns").group_by("group", maintain_order=True)
    return groups.agg(
        pl.col("issued").filter(is_total).last().fill_null(0),
        TIMED.filter(is_total).sum().alias("completed"),
        TIMED.filter(is_ok).sum().alias("ok"),
        pl.col("late", "late_busy").filter(is_total).sum(),
        pl.col("due", "read_late", "frontier").filter(is_total).last(),
    ).to_dicts()


def _totals(
    index: int,
    phase: str,
    rows: pl.DataFrame,
    merged: Mapping[str, Counts],
    *,
    several_groups: bool,
) -> Iterator[dict[str, Any]]:
    series = rows.filter(pl.col("operation") != "TOTAL")
    keys = ["group", "operation", "part", "outcome"]
    counts = series.group_by(keys, maintain_order=True).agg(
        TIMED.sum().alias("count"),
        pl.col("count").filter(~pl.col("drain")).sum().alias("in_window"),
        pl.col("rows").sum(),
        *[pl.col(f"{time}_ns_min").min() for time in TIME_TAGS],
        *[pl.col(f"{time}_ns_max").max() for time in TIME_TAGS],
    )
    for row in counts.iter_rows(named=True):
        names = (row["group"], row["operation"], row["outcome"])
        tag = series_tag(phase, *names, part=row["part"], several_groups=several_groups)
        times = {
            time: time_record(merged[f"{tag}-{end}"], row[f"{time}_ns_min"], row[f"{time}_ns_max"])
            for time, end in TIME_TAGS.items()
            if f"{tag}-{end}" in merged
        }
        if len(times) == len(TIME_TAGS):
            totals = {key: row[key] for key in (*keys, "count", "in_window", "rows")}
            yield {"phase": index, **totals, **times}


def _lag(counts: Counts | None) -> dict[str, Any] | None:
    """The lag of the sampled reads, within the resolution of the histogram."""
    if counts is None or not counts.n:
        return None
    least, largest = int(counts.low[0]), int(counts.high[-1])
    return {"count": counts.n, **time_record(counts, least, largest)}
