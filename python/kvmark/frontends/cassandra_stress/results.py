"""cassandra-stress's Results block: a run's totals as it adds them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from kvmark.analysis.summary.counters import counter_delta
from kvmark.records.model import TotalRecord
from kvmark.records.run import Run
from kvmark.stats import Counts

_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
_QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)
Sort = Literal["service", "response", "wait"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One operation, or all together. Times are milliseconds, None where nothing was recorded."""

    name: str
    operations: int
    op_rate: float
    partition_rate: float
    row_rate: float
    times: Mapping[Sort, tuple[float, ...] | None]
    """Mean, median, 95th, 99th and 99.9th percentile and maximum."""
    partitions: int
    errors: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Collections of garbage on the nodes while it was measured."""

    count: float
    time_s: float


@dataclass(frozen=True, slots=True)
class StressResults:
    """What the block shows."""

    total: Figures
    operations: tuple[Figures, ...]
    shown: Sort
    """The time that stands in the block."""
    time_s: float
    garbage: Garbage | None
    """None where no node says."""


@dataclass(frozen=True, slots=True)
class StressRun:
    """A level of a thread ramp, or the only run."""

    run: str
    results: StressResults


def stress_results(
    run: Run,
    shown: Literal["service", "response"],
    partitions: Mapping[str, Callable[[int], int]],
    checked: frozenset[str],
) -> StressResults:
    """Adds up the measured phase, its drain included.

    `partitions` are those of so many operations, by the operation's name, as many where it is left
    out; of those `checked`, a record that isn't there is an error.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    phases = run.counted
    totals = [total for phase in phases for total in run.totals(phase.index) if not total.part]
    window_ns = sum(max(one.end_ns, one.drained_ns or 0) - one.start_ns for one in phases)
    time_s = window_ns / _NS_PER_S
    names = sorted({total.operation for total in totals})

    def figures(name: str, chosen: Sequence[TotalRecord]) -> Figures:
        count = sum(one.count for one in chosen)
        counted = Counter[str]()
        for one in chosen:
            counted[one.operation] += one.count
        many = sum(partitions.get(one, int)(many) for one, many in counted.items())
        rows = sum(max(one.rows, one.count) for one in chosen if one.outcome in ("ok", "miss"))
        failed = [one for one in chosen if one.outcome != "ok"]
        errors = sum(
            one.count for one in failed if one.outcome != "miss" or one.operation in checked
        )
        per_s = 1 / time_s if time_s else 0.0
        sorts: tuple[Sort, ...] = ("service", "response", "wait")
        times = {sort: _times(run, chosen, sort) for sort in sorts}
        return Figures(name, count, count * per_s, many * per_s, rows * per_s, times, many, errors)

    return StressResults(
        total=figures("total", totals),
        operations=tuple(
            figures(name, [one for one in totals if one.operation == name]) for name in names
        ),
        shown=shown,
        time_s=time_s,
        garbage=_garbage(run),
    )


def _times(run: Run, totals: Sequence[TotalRecord], sort: Sort) -> tuple[float, ...] | None:
    """Quantiles are merged; mean and maximum are exact."""
    count = sum(one.count for one in totals)
    if not count:
        return None
    records = [(one.count, getattr(one, sort)) for one in totals]
    mean_ns = sum(n * record.mean for n, record in records) / count
    max_ns = max(record.max for _, record in records)
    merged = Counts.merge(run.times(one, sort) for one in totals)
    # A histogram answers with the end of a range, which may lie beyond the largest value.
    quantiles = (min(merged.quantile(q) or 0, max_ns) for q in _QUANTILES)
    return tuple(value / _NS_PER_MS for value in (mean_ns, *quantiles, max_ns))


def _garbage(run: Run) -> Garbage | None:
    """What the nodes' counters gained in the measured phase."""
    samples = run.resources
    if "gc_count" not in samples.columns or not run.counted:
        return None
    origin_ns = run.manifest.engine.started_wall_ns
    start_ns = origin_ns + run.counted[0].start_ns
    end_ns = origin_ns + run.counted[-1].end_ns
    # A sample a second: the ones just outside belong to the window.
    inside = samples.filter(
        pl.col("gc_count").is_not_null()
        & pl.col("at_wall_ns").is_between(start_ns - 10**9, end_ns + 10**9)
    )
    if inside.is_empty():
        return None
    gained = (
        inside.sort("at_wall_ns")
        .group_by("node")
        .agg(count=counter_delta("gc_count"), time_s=counter_delta("gc_time_s"))
    )
    return Garbage(float(gained["count"].sum()), float(gained["time_s"].sum()))
