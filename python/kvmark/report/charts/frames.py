"""The rows behind a figure, as they are recorded or were computed by the analysis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from kvmark.analysis import SequenceRow, Summary, Times
from kvmark.records import Run, RunLine, TimeName
from kvmark.report.format import units
from kvmark.report.model.answers import Curve

#: How the name of a series of published figures ends.
PUBLISHED = ", published"

_SEQUENCE = {
    "workload": pl.String(),
    "records": pl.Int64(),
    "series": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "runs": pl.Int64(),
}
_RESPONSES = {
    "workload": pl.String(),
    "throughput": pl.Float64(),
    "series": pl.String(),
    "ns": pl.Int64(),
}
_CURVES = {
    "panel": pl.String(),
    "time": pl.String(),
    "quantile": pl.Float64(),
    "ns": pl.Int64(),
}

_TIMES: Final[tuple[TimeName, ...]] = ("response", "service", "wait")
_QUANTILES: Final = ("p50", "p95", "p99", "p999")
_LEVELS = {
    "panel": pl.String(),
    "run": pl.String(),
    "series": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "runs": pl.Int64(),
}
_SUMMARY = {
    "phase": pl.String(),
    "group": pl.String(),
    "operation": pl.String(),
    "part": pl.Boolean(),
    "ok": pl.Int64(),
    "otherwise": pl.Int64(),
    **{
        f"{time}_ns_{name}": pl.Float64() if name == "mean" else pl.Int64()
        for time in _TIMES
        for name in ("mean", *_QUANTILES, "max")
    },
}
_HISTOGRAMS = {
    "phase": pl.String(),
    "group": pl.String(),
    "operation": pl.String(),
    "part": pl.Boolean(),
    "outcome": pl.String(),
    "time": pl.String(),
    "low_ns": pl.Int64(),
    "high_ns": pl.Int64(),
    "count": pl.Int64(),
}
_RUNS = {
    "run": pl.String(),
    "created": pl.String(),
    "workload": pl.String(),
    "system": pl.String(),
    "state": pl.String(),
    "throughput": pl.Float64(),
    "response_ns_p99": pl.Int64(),
    "verdict": pl.String(),
    "tags": pl.List(pl.String()),
}


@dataclass(frozen=True, slots=True)
class RunValue:
    """A value of a run in a figure that has several runs."""

    panel: str
    run: str
    series: str
    #: The value, and the ends of its interval where they are known.
    bounds: tuple[float, float | None, float | None]


def sequence_frame(
    rows: Sequence[SequenceRow], quantity: Literal["throughput", "runtime_ms"]
) -> pl.DataFrame:
    """One row per case and series: the value, with bounds where they are known."""
    found: list[tuple[object, ...]] = []
    for row in rows:
        case, measured = row.case, getattr(row.figures, quantity)
        rate = "" if case.target_rate is None else f" at {units.significant(case.target_rate)}/s"
        place = (case.workload, case.records)
        bounds = (measured.low, measured.high)
        found.append((*place, case.store + rate, measured.value, *bounds, len(row.figures.runs)))
        if row.published is not None:
            theirs = getattr(row.published, quantity)
            found.append((*place, case.store + PUBLISHED, theirs, None, None, None))
    return pl.DataFrame(found, schema=_SEQUENCE, orient="row")


def target_frame(rows: Sequence[SequenceRow]) -> pl.DataFrame:
    """One row per case, store and quantile: response time beside the throughput it came with."""
    found = [
        (row.case.workload, row.figures.throughput.value, f"{row.case.store} {name}", ns)
        for row in rows
        for name in ("p50", "p99")
        if (ns := row.figures.response.shown_ns(name)) is not None
    ]
    return pl.DataFrame(found, schema=_RESPONSES, orient="row")


def curve_frame(curves: Sequence[Curve]) -> pl.DataFrame:
    """One row per point of each curve. A logarithmic axis has no place for 0 ns."""
    found = [
        (curve.panel, f"{curve.time} time", quantile, ns)
        for curve in curves
        for quantile, ns in curve.points
        if ns > 0
    ]
    return pl.DataFrame(found, schema=_CURVES, orient="row")


def interval_frame(intervals: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """One row per interval, group and column asked for; null where nothing completed."""
    # One interval makes no line: a load that was over at once only takes a colour.
    lines = intervals.filter(pl.len().over("group") > 1)
    intervals = intervals if lines.is_empty() else lines
    several = intervals["group"].n_unique() > 1
    parts = [
        intervals.select(
            "start_ns",
            "end_ns",
            (pl.col("group") + f", {name}" if several else pl.lit(name)).alias("series"),
            pl.col(column).alias("value"),
        )
        for name, column in columns.items()
    ]
    return pl.concat(parts)


def course_frame(data: pl.DataFrame, series: str, value: str) -> pl.DataFrame:
    """One row per instant and series of a run's course, as charts over time take them."""
    return data.select("start_ns", "end_ns", pl.col(series).alias("series"), value=value)


def levels_frame(levels: Iterable[RunValue]) -> pl.DataFrame:
    """One row per value that stands side by side with those of other runs."""
    found = [(level.panel, level.run, level.series, *level.bounds, 1) for level in levels]
    return pl.DataFrame(found, schema=_LEVELS, orient="row")


def summary_frame(summary: Summary) -> pl.DataFrame:
    """One row per counted phase, group and operation; null where too few lie beyond a quantile."""
    found: list[tuple[object, ...]] = []
    for phase in summary.phases:
        for row in phase.operations:
            times = (row.response, row.service, row.wait)
            figures = [each for time in times for each in _figures(time)]
            place = (phase.name, row.group, row.operation, row.part)
            found.append((*place, row.count, sum(row.others.values()), *figures))
    return pl.DataFrame(found, schema=_SUMMARY, orient="row")


def histogram_frame(run: Run) -> pl.DataFrame:
    """One row per bucket that holds anything; its bounds are nanoseconds and both belong to it.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    names = {phase.index: phase.name for phase in run.counted}
    parts = [
        pl.DataFrame(
            {"low_ns": counts.low, "high_ns": counts.high, "count": counts.count}
        ).select(
            pl.lit(names[total.phase]).alias("phase"),
            pl.lit(total.group).alias("group"),
            pl.lit(total.operation).alias("operation"),
            pl.lit(total.part).alias("part"),
            pl.lit(total.outcome).alias("outcome"),
            pl.lit(time).alias("time"),
            pl.all(),
        )
        for total in run.manifest.engine.totals
        if total.phase in names
        for time in _TIMES
        if (counts := run.times(total, time)).n
    ]  # fmt: skip
    return pl.concat(parts) if parts else pl.DataFrame(schema=_HISTOGRAMS)


def runs_frame(lines: Sequence[RunLine]) -> pl.DataFrame:
    """One row per run of a list."""
    found = [
        (
            line.entry.id,
            line.entry.created,
            line.entry.name,
            f"{line.entry.system} {line.entry.version}".strip(),
            line.entry.state,
            line.throughput,
            line.response_ns_p99,
            line.judgement.value if line.judgement else None,
            list(line.entry.tags),
        )
        for line in lines
    ]
    return pl.DataFrame(found, schema=_RUNS, orient="row")


def _figures(times: Times) -> Iterator[float | None]:
    yield times.mean_ns
    yield from (times.shown_ns(name) for name in _QUANTILES)
    yield times.max_ns
