"""The data of charts: a run over its time and around faults, and its times along an axis.

Over time are the use of resources, failures, response times and the cells of a timeline. Axes of
times are logarithmic, with equal steps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kvmark.analysis.summary import faults
from kvmark.analysis.summary.run import Times
from kvmark.analysis.summary.sums import (
    ANSWERED,
    IS_ALONE,
    NS_PER_S,
    counted_totals,
    hit_ratios,
    interval_sums,
    window_rows,
)
from kvmark.records import PhaseRecord, Run, TimeName, files
from kvmark.records.histograms import ATTEMPT, FILL_PREFIX, log_lines
from kvmark.records.run import counts_of, decoded, interval_lines
from kvmark.records.watch import Cells, Moment
from kvmark.stats import Counts

_MOST_LINES = 20_000
"""The most histograms that are decoded for a report: each takes a third of a millisecond."""

_INTERVAL = {"start_ns": pl.Int64(), "end_ns": pl.Int64()}
_USAGE = pl.Schema({
    **_INTERVAL, "node": pl.String(), "cores": pl.Float64(), "resident_bytes": pl.Int64(),
})  # fmt: skip
_FAILURES = pl.Schema({**_INTERVAL, "outcome": pl.String(), "count": pl.Int64()})
_COURSE = pl.Schema({**_INTERVAL, "series": pl.String(), "value": pl.Float64()})
_SPREAD = pl.Schema({
    **_INTERVAL, "low_ns": pl.Float64(), "high_ns": pl.Float64(), "count": pl.Int64(),
    "share": pl.Float64(),
})  # fmt: skip
_COLUMNS = 96
_STEPS_PER_DECADE = 8
_PARTS: Final = ("READ-MODIFY-WRITE.", FILL_PREFIX, ATTEMPT)

MOST_STEPS: Final = 24
"""An axis of times is as fine as this allows."""

_PER_DECADE: Final = (8, 4, 2, 1)
_MARKS: Final = {"p50": 0.5, "p99": 0.99, "max": 1.0}
# What is faster than all the rest says little, and would take half of the axis.
_FASTEST: Final = 0.01
# The logarithm of a power of ten may lie a hair below the integer it means.
_HAIR: Final = 1e-9


def resource_course(run: Run) -> pl.DataFrame:
    """One row per sample and node but the first: cores kept busy since the one before, and memory.

    Cores are None if a server's counter was reset. Instants count from the run's origin.
    """
    if run.resources.is_empty():
        return pl.DataFrame(schema=_USAGE)
    used = pl.col("cpu_user_s") + pl.col("cpu_system_s")
    before = pl.col("at_wall_ns").shift(1).over("node")
    cores = (used - used.shift(1).over("node")) * NS_PER_S / (pl.col("at_wall_ns") - before)
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
    rows = run.intervals.filter((pl.col("operation") != "TOTAL") & IS_ALONE)
    failed = rows.filter(~pl.col("outcome").is_in(["any", *ANSWERED]))
    if failed.is_empty():
        return pl.DataFrame(schema=_FAILURES)
    interval = ["start_ns", "end_ns"]
    met = failed.group_by(*interval, "outcome").agg(pl.col("count").sum())
    every = rows.select(interval).unique().join(failed.select("outcome").unique(), how="cross")
    whole = every.join(met, on=[*interval, "outcome"], how="left")
    return (
        whole.with_columns(pl.col("count").fill_null(0)).sort("outcome", *interval).cast(_FAILURES)
    )


def attempt_course(run: Run) -> pl.DataFrame:
    """Attempts, operations that ended, and those that succeeded, per second of each interval.

    Empty without a retry policy.
    """
    sums = interval_sums(run.intervals.filter(~pl.col("drain")))
    if not sums["attempts"].sum():
        return pl.DataFrame(schema=_COURSE)
    per_s = NS_PER_S / (pl.col("end_ns") - pl.col("start_ns")).clip(1)
    counts = {
        "attempts": pl.col("attempts"),
        "operations": pl.col("succeeded") + pl.col("failed"),
        "succeeded": pl.col("succeeded"),
    }
    return pl.concat(
        sums.select("start_ns", "end_ns", series=pl.lit(name), value=count * per_s)
        for name, count in counts.items()
    ).cast(_COURSE)


def hit_course(run: Run) -> pl.DataFrame:
    """The share of reads that found their record in each interval; empty without `on_miss`."""
    return (
        hit_ratios(run, run.intervals.filter(~pl.col("drain")))
        .select(_COURSE.names())
        .cast(_COURSE)
    )


def time_spread(run: Run) -> pl.DataFrame:
    """How many operations had which response time when: one row per cell that holds any.

    Cells are a ninety-sixth of the run, or an interval where that is longer, by an eighth of a
    decade; the share is that of the operations in the same stretch of time. A run of more than
    20,000 recorded histograms has none.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    text = files.whole_lines(run.path / files.HISTOGRAMS).decode(errors="replace")
    lines = [
        line
        for line in log_lines(text)
        if line.tag.endswith("-rt") and line.length_s > 0
        if not any(part in line.tag for part in _PARTS)
    ]
    if not lines or len(lines) > _MOST_LINES:
        return pl.DataFrame(schema=_SPREAD)
    begin_s = min(line.start_s for line in lines)
    length_s = max(line.start_s + line.length_s for line in lines) - begin_s
    width_s = max(length_s / _COLUMNS, *(line.length_s for line in lines))
    what = f"in run {run.id}"
    counts = [counts_of(line.encoded, f"a histogram of {line.tag} {what}") for line in lines]
    middles_s = (line.start_s + line.length_s / 2 - begin_s for line in lines)
    columns = [int(middle_s / width_s) for middle_s in middles_s]
    low_ns = np.maximum(np.concatenate([one.low for one in counts]), 1)
    cells = pl.DataFrame(
        {
            "column": np.repeat(columns, [len(one.low) for one in counts]),
            "step": np.floor(np.log10(low_ns) * _STEPS_PER_DECADE),
            "count": np.concatenate([one.count for one in counts]),
        }
    )
    start_ns = (begin_s + pl.col("column") * width_s) * NS_PER_S
    sums = cells.group_by("column", "step").agg(pl.col("count").sum()).sort("column", "step")
    return sums.select(
        start_ns=start_ns,
        end_ns=start_ns + width_s * NS_PER_S,
        low_ns=pl.lit(10.0).pow(pl.col("step") / _STEPS_PER_DECADE),
        high_ns=pl.lit(10.0).pow((pl.col("step") + 1) / _STEPS_PER_DECADE),
        count="count",
        share=pl.col("count") / pl.col("count").sum().over("column"),
    ).cast(_SPREAD)


@dataclass(frozen=True, slots=True)
class TimelineFault:
    """A fault and the cells that it touches, both ends included."""

    text: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A phase in cells of one length."""

    phase: str
    length_ns: int
    cell_ns: int
    cells: Cells
    faults: tuple[TimelineFault, ...]


def timelines(run: Run, most: int) -> tuple[Timeline, ...]:
    """Each counted phase in at most this number of cells, each a whole number of intervals.

    A phase of one interval has none: that is no course.
    """
    found = (_timeline(run, phase, max(most, 1)) for phase in run.counted)
    return tuple(timeline for timeline in found if timeline is not None)


def _timeline(run: Run, phase: PhaseRecord, most: int) -> Timeline | None:
    in_window = window_rows(run, phase)
    intervals = interval_sums(in_window).filter(pl.col("end_ns") > pl.col("start_ns"))
    if intervals.height < 2:
        return None
    begin_ns, end_ns = int(intervals["start_ns"].to_list()[0]), max(intervals["end_ns"].to_list())
    interval_ns = max((intervals["end_ns"] - intervals["start_ns"]).to_list())
    together = math.ceil(math.ceil((end_ns - begin_ns) / interval_ns) / most)
    cell_ns = together * interval_ns
    # The highest p99 of the groups in each interval, over all operations that completed.
    totals = in_window.filter(pl.col("operation") == "TOTAL").group_by("start_ns", "end_ns")
    p99s = totals.agg(pl.col("response_ns_p99").max())
    intervals = intervals.join(p99s, on=["start_ns", "end_ns"], how="left").select(
        pl.col("start_ns", "end_ns") - begin_ns, "succeeded", "failed", "response_ns_p99"
    )
    places = range(math.ceil((end_ns - begin_ns) / cell_ns))
    return Timeline(
        phase=phase.name,
        length_ns=end_ns - begin_ns,
        cell_ns=cell_ns,
        cells=Cells.of(starmap(Moment, intervals.iter_rows()), cell_ns, places),
        faults=tuple(_faults(run, begin_ns, end_ns, cell_ns)),
    )


def _faults(run: Run, begin_ns: int, end_ns: int, cell_ns: int) -> Iterator[TimelineFault]:
    for span in faults.fault_spans(run):
        if begin_ns <= span.begun_ns < end_ns:
            over_ns = end_ns if span.ended_ns is None else min(span.ended_ns, end_ns)
            # A fault that is over at a cell's first instant doesn't touch it.
            last = max(over_ns - 1, span.begun_ns) - begin_ns
            yield TimelineFault(span.text, (span.begun_ns - begin_ns) // cell_ns, last // cell_ns)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the measurement, whole intervals long. Instants count from the run's origin."""

    #: ``before``, ``after``, or the fault as it was planned.
    name: str
    start_ns: int
    end_ns: int
    #: Operations that completed in it: those that succeeded, and those that failed.
    succeeded: int
    failed: int
    #: Of those that succeeded. Counts none where the run kept no histogram per interval, or more
    #: than can be decoded in a while.
    response: Times

    @property
    def throughput(self) -> float:
        """Successful operations per second."""
        return self.succeeded * NS_PER_S / (self.end_ns - self.start_ns)


def around_faults(run: Run, effects: Sequence[faults.FaultEffect]) -> tuple[Stretch, ...]:
    """The measurement, cut where faults began and where the service was as before again.

    ``effects`` are those of all faults that were carried out.
    An interval that a fault touches counts as the fault's. Empty for a run without faults.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    phase = faults.measured_phase(run)
    if not effects or phase is None:
        return ()
    spans, counts = faults.segments(phase, effects), interval_sums(window_rows(run, phase))
    starts, ends = counts["start_ns"].to_list(), counts["end_ns"].to_list()
    owners = [_owner(spans, *edges) for edges in zip(starts, ends, strict=True)]
    responses: dict[int, list[Counts]] = {}
    lines = interval_lines(run, phase, "response")
    for line in lines if len(lines) <= _MOST_LINES else ():
        at_ns = (line.start_s + line.length_s / 2) * NS_PER_S
        place = bisect_right(starts, at_ns) - 1
        if place >= 0 and at_ns < ends[place]:
            responses.setdefault(owners[place], []).append(decoded(line, run.id))
    counts = counts.with_columns(pl.Series("span", owners, dtype=pl.Int64))
    found = []
    for index, span in enumerate(spans):
        own = counts.filter(pl.col("span") == index)
        if not own.is_empty():
            stretch = Stretch(
                span.name,
                start_ns=int(own["start_ns"].to_list()[0]),
                end_ns=int(own["end_ns"].to_list()[-1]),
                succeeded=int(own["succeeded"].sum()),
                failed=int(own["failed"].sum()),
                response=Times.of(Counts.merge(responses.get(index, []))),
            )
            found.append(stretch)
    return tuple(found)


def _owner(spans: Sequence[faults.Segment], start_ns: int, end_ns: int) -> int:
    """The last fault that touches an interval, or else the quiet stretch that holds it."""
    touching = [
        (span.is_fault, index)
        for index, span in enumerate(spans)
        if span.start_ns < end_ns and span.end_ns > start_ns
    ]
    return max(touching, default=(False, 0))[1]


@dataclass(frozen=True, slots=True)
class KindSteps:
    """Operations of one kind that ended ok, by response time."""

    group: str
    operation: str
    #: One count for each step of the axis.
    counts: tuple[int, ...]
    #: The step in which a quantile or the maximum lies, by name. A quantile with fewer than ten
    #: operations beyond it is left out.
    marks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """An axis of equal factors, and the kinds counted along it. Each has at least one operation."""

    time: TimeName
    #: The first edge of each step in nanoseconds, which belongs to it, and the last one's end. The
    #: first is 0 where operations, a hundredth or so, were faster than a step of this axis.
    edges_ns: tuple[float, ...]
    #: How many steps multiply a time by ten.
    per_decade: int
    kinds: tuple[KindSteps, ...]

    @property
    def factor(self) -> float:
        """By how much a step's end is above its begin."""
        return 10 ** (1 / self.per_decade)


def response_steps(run: Run) -> TimeSteps | None:
    """The response times of a run's counted phases, by kind; none where nothing ended ok.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    times: dict[tuple[str, str], list[Counts]] = {}
    for total in counted_totals(run):
        if total.outcome == "ok":
            place = (total.group, total.operation)
            times.setdefault(place, []).append(run.times(total, "response"))
    return steps_of("response", {place: Counts.merge(parts) for place, parts in times.items()})


def steps_of(time: TimeName, times: Mapping[tuple[str, str], Counts]) -> TimeSteps | None:
    """The counts of each group and operation along one axis; none where there is no count.

    A range of values counts in the step of its upper end, as quantiles do.
    """
    known = {place: counts for place, counts in times.items() if counts.n}
    if not known:
        return None
    # The fastest hundredth of a kind ends in the first step.
    fastest = np.array([counts.quantile(_FASTEST) for counts in known.values()])
    slowest = np.array([counts.high.max() for counts in known.values()])
    axes = [
        (fine, int(_places(fastest, fine).min()), int(_places(slowest, fine).max()))
        for fine in _PER_DECADE
    ]
    per_decade, first, last = next(
        (axis for axis in axes if axis[2] - axis[1] < MOST_STEPS), axes[-1]
    )
    least = min(int(_places(counts.high[:1], per_decade)[0]) for counts in known.values())
    edges_ns = [10 ** (step / per_decade) for step in range(first, last + 2)]
    return TimeSteps(
        time=time,
        edges_ns=(edges_ns[0] if least >= first else 0.0, *edges_ns[1:]),
        per_decade=per_decade,
        kinds=tuple(_kind(*one, per_decade, first, last - first + 1) for one in known.items()),
    )


def _kind(
    place: tuple[str, str], counts: Counts, per_decade: int, first: int, length: int
) -> KindSteps:
    found = np.zeros(length, dtype=np.int64)
    np.add.at(found, np.maximum(_places(counts.high, per_decade) - first, 0), counts.count)
    marks = {
        name: max(int(_places(np.array([value_ns]), per_decade)[0]) - first, 0)
        for name, q in _MARKS.items()
        if counts.shows(q) and (value_ns := counts.quantile(q)) is not None
    }
    return KindSteps(*place, tuple(found.tolist()), marks)


def _places(values_ns: NDArray[np.int64], per_decade: int) -> NDArray[np.int64]:
    """The step of each value, counted from 1 ns; less than that stands there too."""
    logs = np.log10(np.maximum(values_ns, 1)) * per_decade
    return np.floor(logs + _HAIR).astype(np.int64)
