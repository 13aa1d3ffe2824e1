"""How a run went over its time: what it and its servers used, what failed, how times spread."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from kvmark.errors import RecordsError
from kvmark.records import PhaseRecord, Run, files
from kvmark.records.histograms import LogLine, decode, log_lines
from kvmark.stats import Counts

__all__ = ["MOST_LINES", "failure_course", "interval_outcomes", "resource_course", "time_spread"]

MOST_LINES = 20_000
"""The most histograms that are decoded for a report: each takes a third of a millisecond."""

_USAGE = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "node": pl.String(),
        "cores": pl.Float64(),
        "resident_bytes": pl.Int64(),
    }
)
_FAILURES = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "outcome": pl.String(),
        "count": pl.Int64(),
    }
)
_SPREAD = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "low_ns": pl.Float64(),
        "high_ns": pl.Float64(),
        "count": pl.Int64(),
        "share": pl.Float64(),
    }
)
_NO_FAILURE = ("any", "ok", "miss")
_NS_PER_S = 1e9
_COLUMNS = 96
_STEPS_PER_DECADE = 8
_PART = "READ-MODIFY-WRITE."


def resource_course(run: Run) -> pl.DataFrame:
    """One row per sample and node but the first: cores kept busy since the one before, and memory.

    Cores are none where a server's counter began anew. Instants count from the run's origin.
    """
    if run.resources.is_empty():
        return pl.DataFrame(schema=_USAGE)
    used = pl.col("cpu_user_s") + pl.col("cpu_system_s")
    before = pl.col("at_wall_ns").shift(1).over("node")
    cores = (used - used.shift(1).over("node")) * _NS_PER_S / (pl.col("at_wall_ns") - before)
    origin_ns = run.manifest.engine.started_wall_ns
    return (
        run.resources.sort("node", "at_wall_ns", maintain_order=True)
        .select(
            (before - origin_ns).alias("start_ns"),
            (pl.col("at_wall_ns") - origin_ns).alias("end_ns"),
            pl.col("node"),
            pl.when(cores >= 0).then(cores).alias("cores"),
            pl.col("resident_bytes"),
        )
        .drop_nulls("start_ns")
        .cast(_USAGE)
    )


def failure_course(run: Run) -> pl.DataFrame:
    """One row per interval and error class that the run met, zeros included; empty without any."""
    rows = run.intervals.filter((pl.col("operation") != "TOTAL") & ~pl.col("part"))
    failed = rows.filter(~pl.col("outcome").is_in(_NO_FAILURE))
    if failed.is_empty():
        return pl.DataFrame(schema=_FAILURES)
    interval = ["start_ns", "end_ns"]
    met = failed.group_by(*interval, "outcome").agg(pl.col("count").sum())
    every = rows.select(interval).unique().join(failed.select("outcome").unique(), how="cross")
    whole = every.join(met, on=[*interval, "outcome"], how="left")
    return (
        whole.with_columns(pl.col("count").fill_null(0)).sort("outcome", *interval).cast(_FAILURES)
    )


def interval_outcomes(run: Run, phase: PhaseRecord) -> pl.DataFrame:
    """One row per interval of a phase without its drain: its bounds, successes and failures."""
    ok = pl.col("outcome") == "ok"
    # Rows of the whole interval, of outcome any, are there even when nothing completed.
    failed = ~pl.col("outcome").is_in(["any", "ok", "miss", "mismatch"])
    rows = run.intervals.filter(
        (pl.col("phase") == phase.index) & ~pl.col("drain") & ~pl.col("part")
    )
    return (
        rows.group_by("start_ns", "end_ns")
        .agg(
            pl.col("count").filter(ok).sum().alias("succeeded"),
            pl.col("count").filter(failed).sum().alias("failed"),
        )
        .sort("start_ns")
    )


def time_spread(run: Run) -> pl.DataFrame:
    """How many operations had which response time when: one row per cell that holds any.

    Cells are a ninety-sixth of the run, or an interval where that is longer, by an eighth of a
    decade; the share is that of the operations in the same stretch of time. A run of more than
    20,000 recorded histograms has none.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    lines = list(_response_lines(run))
    if not lines or len(lines) > MOST_LINES:
        return pl.DataFrame(schema=_SPREAD)
    begin_s = min(line.start_s for line in lines)
    length_s = max(line.start_s + line.length_s for line in lines) - begin_s
    width_s = max(length_s / _COLUMNS, *(line.length_s for line in lines))
    columns: dict[int, list[Counts]] = {}
    for line in lines:
        middle_s = line.start_s + line.length_s / 2 - begin_s
        columns.setdefault(int(middle_s / width_s), []).append(_decoded(run, line))
    found: list[tuple[object, ...]] = []
    for column, parts in sorted(columns.items()):
        start_ns = (begin_s + column * width_s) * _NS_PER_S
        place = (int(start_ns), int(start_ns + width_s * _NS_PER_S))
        found += [(*place, *cell) for cell in _cells(Counts.merge(parts))]
    return pl.DataFrame(found, schema=_SPREAD, orient="row")


def _cells(counts: Counts) -> Iterator[tuple[float, float, int, float]]:
    """Bounds, count and share of each step of times."""
    steps: Counter[int] = Counter()
    logs = np.log10(np.maximum(counts.low, 1)) * _STEPS_PER_DECADE
    for step, count in zip(logs.tolist(), counts.count.tolist(), strict=True):
        steps[math.floor(step)] += count
    for step, count in sorted(steps.items()):
        low = 10 ** (step / _STEPS_PER_DECADE)
        yield low, 10 ** ((step + 1) / _STEPS_PER_DECADE), count, count / counts.n


def _response_lines(run: Run) -> Iterator[LogLine]:
    """The recorded histograms of response time, without parts of read-modify-writes."""
    text = files.whole_lines(run.path / files.HISTOGRAMS).decode(errors="replace")
    for line in log_lines(text):
        if line.tag.endswith("-rt") and _PART not in line.tag and line.length_s > 0:
            yield line


def _decoded(run: Run, line: LogLine) -> Counts:
    try:
        return decode(line.encoded)
    except ValueError as problem:
        raise RecordsError(
            f"a histogram of {line.tag} in run {run.id} is damaged: {problem}"
        ) from problem
