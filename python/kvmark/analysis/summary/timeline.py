"""A counted phase in a few equal cells of time: what a timeline of text is drawn of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from kvmark.analysis.summary.faults import fault_spans
from kvmark.analysis.summary.resources import interval_outcomes
from kvmark.records import PhaseRecord, Run

__all__ = ["Timeline", "TimelineFault", "timelines"]

_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class TimelineFault:
    """A fault and the cells that it touches, both ends included."""

    text: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A phase in cells of one length; where no interval lies in one its figures are none."""

    phase: str
    length_ns: int
    cell_ns: int
    #: Successful operations per second.
    succeeded_per_s: tuple[float | None, ...]
    failed_per_s: tuple[float | None, ...]
    #: The highest p99 of a cell's intervals and groups, over all their operations.
    response_ns_p99: tuple[int | None, ...]
    faults: tuple[TimelineFault, ...]


def timelines(run: Run, most: int) -> tuple[Timeline, ...]:
    """Each counted phase in at most so many cells, each a whole number of intervals.

    A phase of one interval has none: that is no course.
    """
    found = (_timeline(run, phase, max(most, 1)) for phase in run.counted)
    return tuple(timeline for timeline in found if timeline is not None)


def _timeline(run: Run, phase: PhaseRecord, most: int) -> Timeline | None:
    intervals = interval_outcomes(run, phase).filter(pl.col("end_ns") > pl.col("start_ns"))
    if intervals.height < 2:
        return None
    begin_ns, end_ns = int(intervals["start_ns"].to_list()[0]), max(intervals["end_ns"].to_list())
    interval_ns = max((intervals["end_ns"] - intervals["start_ns"]).to_list())
    together = math.ceil(math.ceil((end_ns - begin_ns) / interval_ns) / most)
    cell_ns = together * interval_ns
    cells = math.ceil((end_ns - begin_ns) / cell_ns)
    middle = (pl.col("start_ns") + pl.col("end_ns")) // 2
    figures = (
        intervals.join(_p99s(run, phase), on=["start_ns", "end_ns"], how="left")
        .group_by(((middle - begin_ns) // cell_ns).alias("cell"))
        .agg(
            pl.col("succeeded", "failed").sum(),
            pl.col("response_ns_p99").max(),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("length_ns"),
        )
    )
    rows = {int(row["cell"]): row for row in figures.iter_rows(named=True)}
    known = [rows.get(cell) for cell in range(cells)]

    def rates(name: str) -> tuple[float | None, ...]:
        return tuple(row[name] * _NS_PER_S / row["length_ns"] if row else None for row in known)

    return Timeline(
        phase=phase.name,
        length_ns=end_ns - begin_ns,
        cell_ns=cell_ns,
        succeeded_per_s=rates("succeeded"),
        failed_per_s=rates("failed"),
        response_ns_p99=tuple(row["response_ns_p99"] if row else None for row in known),
        faults=tuple(_faults(run, begin_ns, end_ns, cell_ns)),
    )


def _p99s(run: Run, phase: PhaseRecord) -> pl.DataFrame:
    """The highest p99 of the groups in each interval, over all operations that completed."""
    totals = run.intervals.filter(
        (pl.col("phase") == phase.index) & ~pl.col("drain") & (pl.col("operation") == "TOTAL")
    )
    return totals.group_by("start_ns", "end_ns").agg(pl.col("response_ns_p99").max())


def _faults(run: Run, begin_ns: int, end_ns: int, cell_ns: int) -> Iterator[TimelineFault]:
    for span in fault_spans(run):
        if begin_ns <= span.begun_ns < end_ns:
            over_ns = end_ns if span.ended_ns is None else min(span.ended_ns, end_ns)
            # A fault that is over at a cell's first instant doesn't touch it.
            last = max(over_ns - 1, span.begun_ns) - begin_ns
            yield TimelineFault(span.text, (span.begun_ns - begin_ns) // cell_ns, last // cell_ns)
