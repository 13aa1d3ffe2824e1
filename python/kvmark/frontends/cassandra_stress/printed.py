"""A stored run as cassandra-stress would have printed it: head, a line per interval, results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

import polars as pl

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.lines import Collections, LineMaker, Row
from kvmark.frontends.cassandra_stress.results import stress_results
from kvmark.frontends.cassandra_stress.text import HEAD, line_text, results_text
from kvmark.records import Run

_PREDEFINED: Final = ("write", "read", "mixed", "counter_write", "counter_read")


def text_of_run(run: Run) -> str:
    """The head, a line an interval, and the Results block of a predefined command.

    Raises:
        SpecError: the run is no such one.
        RecordsError: it can't be read.
    """
    asked = run.manifest.spec.get("stress")
    if asked is None or asked.get("command") not in _PREDEFINED:
        raise SpecError(f"run {run.id} is none of kvmark stress {', '.join(_PREDEFINED)}")
    shown: Literal["service", "response"] = "response" if asked["rate"] is not None else "service"
    names = {total.operation for total in run.manifest.engine.totals}
    checked = frozenset(name for name in names if name.endswith("READ"))
    maker = LineMaker(shown, {}, checked)
    lines = [HEAD]
    for rows in _intervals(run):
        made, maker = maker.take(rows, _collections(run, rows[0]))
        lines += map(line_text, made)
    return "\n".join([*lines, results_text(stress_results(run, shown, {}, checked))]).rstrip()


def _intervals(run: Run) -> Iterator[list[Row]]:
    """The rows of each interval of the measured phase, in their order."""
    measured = run.intervals.filter(pl.col("phase_name") == "measure").sort("start_ns", "drain")
    for _, rows in measured.group_by("start_ns", "drain", maintain_order=True):
        yield list(rows.iter_rows(named=True))


def _collections(run: Run, row: Row) -> Collections:
    """What the nodes' counters gained in an interval: from the last samples before its ends."""
    samples = run.resources
    if "gc_count" not in samples.columns:
        return Collections()
    origin_ns = run.manifest.engine.started_wall_ns
    known = samples.filter(pl.col("gc_count").is_not_null())
    before = known.filter(pl.col("at_wall_ns") <= origin_ns + row["start_ns"])
    until = known.filter(pl.col("at_wall_ns") <= origin_ns + row["end_ns"])
    ends = [
        one.group_by("node").agg(pl.col("gc_count", "gc_time_s").last()) for one in (before, until)
    ]
    both = ends[0].join(ends[1], on="node", suffix="_until")
    if both.is_empty():
        return Collections()
    count = _gained(both, "gc_count")
    sum_ms = _gained(both, "gc_time_s") * 1000
    if not count:
        return Collections(0, 0, 0, 0, math.nan)
    one = count == 1
    return Collections(count, sum_ms if one else math.nan, sum_ms, 0 if one else math.nan)


def _gained(both: pl.DataFrame, name: str) -> float:
    """What a counter of all nodes gained. A node that was started again counts from 0."""
    return float((both[f"{name}_until"] - both[name]).clip(lower_bound=0).sum())
