"""Closing a run: one that has ended, or a killed one from its logs, which become tables.

The engine appends whole lines once per interval, so at most the last interval is missing. What only
the engine knew at the end, such as processor time, stays unknown. The writer is elsewhere, because
tables bring Polars, which takes a while to load.
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
    TIME_TAGS,
    lag_tag,
    log_lines,
    merge_log,
    series_tag,
    time_record,
)
from kvmark.records.intervals import TIMED, read_intervals, read_resources, to_parquet
from kvmark.records.run import Run
from kvmark.records.writer import Running, one_sentence, write_end
from kvmark.removal import remove_file
from kvmark.stats import Counts

_READ_ONLY = 0o400


def recover(folder: Path) -> Run:
    """Closes a run that has ended or was killed; one that is closed already is only read.

    Raises:
        RecordsError: the run is still going, or its logs can't be read.
        RunError: a file can't be written.
    """
    with _alone(folder):
        if (folder / files.MANIFEST).exists():
            _tidy(folder)
            return Run.open(folder)
        if (folder / files.ENDED).exists():
            return _seal(folder)
        running = Running.read(folder)
        if running.writer.writes(folder):
            raise RecordsError(
                f"run {folder.name} is still going in process {running.writer.pid}: wait until it"
                " ends or stop it"
            )
        record = record_of_logs(folder, running.plan, running.created)
        write_end(folder, running, record, "recovered")
        return _seal(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two commands may find the same killed run: the second one waits."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise RecordsError(f"the folder {folder} can't be opened: {problem.strerror}") from problem
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def record_of_logs(folder: Path, plan: Mapping[str, Any], created: str) -> dict[str, Any]:
    """The engine's record as far as the logs in a folder tell."""
    intervals = read_intervals(files.whole_lines(folder / files.INTERVAL_LOG))
    events = read_events(folder / files.EVENTS)
    histograms = files.whole_lines(folder / files.HISTOGRAMS).decode(errors="replace")
    lines = list(log_lines(histograms))
    several_groups = len(plan.get("groups", ())) > 1
    phases: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for keys, rows in intervals.group_by("phase", "phase_name", maintain_order=True):
        index, name = int(str(keys[0])), str(keys[1])
        start_s, end_s = _span_s(rows)
        merged = merge_log(line for line in lines if start_s <= line.start_s < end_s)
        lag = _lag(merged.get(lag_tag(name)))
        phases.append({**_phase(index, name, rows, events), "generator_lag": lag})
        totals += _totals(index, name, rows, merged, several_groups=several_groups)
    opened = next((event for event in events if event.get("kind") == "opened"), {})
    driver = plan.get("system", {}).get("driver", "unknown")
    return {
        "counting": opened.get("counting"),
        "started_wall_ns": opened.get("started_wall_ns", _wall_ns(created)),
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
    ended = [
        event
        for event in events
        if event.get("kind") == "phase_ended" and event.get("phase") == index
    ]
    window = rows.filter(~pl.col("drain"))
    window = rows if window.is_empty() else window
    last_end = max(window["end_ns"].to_list())
    went_on = [
        event
        for event in events
        if event.get("code") == "load_went_on" and event.get("phase") == index
    ]
    totals = rows.filter(pl.col("operation") == "TOTAL")
    return {
        "index": index,
        "name": name,
        "start_ns": min(rows["start_ns"].to_list()),
        "end_ns": ended[0].get("at_ns", last_end) if ended else last_end,
        "drained_ns": max(rows["end_ns"].to_list()),
        "stopped_by": ended[0].get("stopped_by", "killed") if ended else "killed",
        "groups": [
            _group(str(keys[0]), group_totals, rows)
            for keys, group_totals in totals.group_by("group", maintain_order=True)
        ],
        "records_found": went_on[0].get("evidence", {}).get("records_found") if went_on else None,
    }


def _group(name: str, totals: pl.DataFrame, rows: pl.DataFrame) -> dict[str, Any]:
    last = totals.sort("end_ns").row(-1, named=True)
    ok = rows.filter((pl.col("group") == name) & (pl.col("outcome") == "ok") & ~pl.col("part"))
    return {
        "group": name,
        "issued": last["issued"] or 0,
        "completed": int(totals.select(TIMED.sum()).item()),
        "ok": int(ok.select(TIMED.sum()).item()),
        "due": last["due"],
        "late": int(totals["late"].sum()),
        "late_busy": int(totals["late_busy"].sum()),
        "read_late": last["read_late"],
        "frontier": last["frontier"],
    }


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
        times = {time: merged.get(f"{tag}-{end}") for time, end in TIME_TAGS.items()}
        if any(found is None for found in times.values()):
            continue
        yield {
            "phase": index,
            **{key: row[key] for key in (*keys, "count", "in_window", "rows")},
            **{
                time: time_record(found, row[f"{time}_ns_min"], row[f"{time}_ns_max"])
                for time, found in times.items()
                if found is not None
            },
        }


def _lag(counts: Counts | None) -> dict[str, Any] | None:
    """The lag of the sampled reads, its least and largest value as fine as the histogram."""
    if counts is None or not counts.n:
        return None
    least, largest = int(counts.low[0]), int(counts.high[-1])
    return {"count": counts.n, **time_record(counts, least, largest)}


def _span_s(rows: pl.DataFrame) -> tuple[float, float]:
    """Begin and end of the phase and its drain; half a nanosecond keeps rounding out."""
    start, end = min(rows["start_ns"].to_list()), max(rows["end_ns"].to_list())
    return (start - 0.5) / 1e9, (end - 0.5) / 1e9


def _wall_ns(created: str) -> int:
    return int(datetime.fromisoformat(created).timestamp() * 1e9)


def _seal(folder: Path) -> Run:
    """Turns the logs of a run that has ended into tables, names its manifest, removes the logs.

    Raises:
        RunError: a file can't be written; the logs are still there and it can be tried again.
    """
    with one_sentence(folder):
        _write_tables(folder)
        (folder / files.ENDED).replace(folder / files.MANIFEST)
        files.sync_folder(folder)
        _tidy(folder)
    return Run.open(folder)


def _tidy(folder: Path) -> None:
    """Removes the logs of a closed run and makes what stays read-only."""
    for name in files.LOGS:
        remove_file(folder / name)
    for name in files.CLOSED_FILES:
        if (folder / name).exists():
            (folder / name).chmod(_READ_ONLY)
    files.sync_folder(folder)


def _write_tables(folder: Path) -> None:
    intervals = read_intervals(files.whole_lines(folder / files.INTERVAL_LOG))
    files.write_atomically(folder / files.INTERVALS, to_parquet(intervals))
    resources = read_resources(files.whole_lines(folder / files.RESOURCE_LOG))
    if resources.height:
        files.write_atomically(folder / files.RESOURCES, to_parquet(resources))
