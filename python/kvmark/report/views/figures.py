"""The figures of runs and sequences, and the tables of runs for notebooks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kvmark.analysis.peers import Peers
from kvmark.analysis.summary.faults import FaultSpan, Segment
from kvmark.analysis.summary.imported import Curve
from kvmark.analysis.summary.run import Summary
from kvmark.analysis.verdict.cases import SEQUENCE_SOURCE, SequenceRow
from kvmark.records import Run, RunLine, TimeName
from kvmark.records.files import COORDINATOR, is_ours
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer
from kvmark.report.model.page import Figure
from kvmark.report.model.units import listed
from kvmark.report.views import charts
from kvmark.report.views.charts import PUBLISHED

_TIMES: Final[tuple[TimeName, ...]] = ("response", "service", "wait")
_QUANTILES: Final = ("p50", "p95", "p99", "p999")
_NS_PER_MS: Final = 1e6
_FAULTS_CAPTION: Final = " Dashed lines: a server was broken on purpose, and was back."
BOUNDED_SCHEMA: Final = {"series": str, "value": float, "low": float, "high": float, "runs": int}
"""The columns of a value with its interval and number of runs."""
_OPERATION: Final = {"phase": str, "group": str, "operation": str, "part": bool}
_SUMMARY: Final = {
    **_OPERATION,
    "ok": int,
    "otherwise": int,
    **{
        f"{time}_ns_{name}": float if name == "mean" else int
        for time in _TIMES
        for name in ("mean", *_QUANTILES, "max")
    },
}
_BUCKET: Final = {"outcome": str, "time": str, "low_ns": int, "high_ns": int, "count": int}
_RUN: Final = {
    **dict.fromkeys(("run", "created", "workload", "system", "state"), str),
    "throughput": float,
    "response_ns_p99": int,
    "verdict": str,
    "tags": list[str],
}


def frame(rows: Iterable[tuple[object, ...]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of these columns."""
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def sequence_figure(rows: Sequence[SequenceRow]) -> Figure:
    """Throughput against the number of records, one panel per workload.

    Where there is only one number, against the stores.
    """
    values: list[tuple[object, ...]] = []
    stores = {row.case.store for row in rows}
    across = "store" if len({row.case.records for row in rows}) == 1 < len(stores) else "records"
    for row in rows:
        case, measured = row.case, row.figures.throughput
        rate = "" if case.target_rate is None else f" at {units.significant(case.target_rate)}/s"
        place = (case.workload, getattr(case, across))
        bounds = (measured.low, measured.high)
        values.append((*place, case.store + rate, measured.value, *bounds, len(row.figures.runs)))
        if row.published is not None:
            published = row.published.throughput
            values.append((*place, case.store + PUBLISHED, published, None, None, None))
    kinds = {"workload": str, across: str if across == "store" else int}
    data = frame(values, kinds | BOUNDED_SCHEMA)
    bars = source = ""
    if data["low"].is_not_null().any():
        bars = " Bars are 95 % confidence intervals, often smaller than their point."
    if data["series"].str.ends_with(PUBLISHED).any():
        source = f" Diamonds on dashed lines: {SEQUENCE_SOURCE}."
    axes = "logarithmic axis" if across == "store" else "both axes logarithmic"
    caption = f"Operations per second, {axes}.{bars}{source}"
    spec = charts.level_chart(data, "operations per second", across, "workload")
    return Figure("throughput", "Throughput", caption, data, spec)


def target_figure(rows: Sequence[SequenceRow]) -> Figure:
    """Response time against the throughput of each target, one panel per workload."""
    values = [
        (row.case.workload, row.figures.throughput.value, f"{row.case.store} {name}", ns)
        for row in rows
        for name in ("p50", "p99")
        if (ns := row.figures.response.shown_ns(name)) is not None
    ]
    data = frame(values, {"workload": str, "throughput": float, "series": str, "ns": int})
    title = "Response time against throughput"
    caption = (
        "Each point is a target: the throughput that was reached, and the response time from the"
        " intended start. The last one offers as much as the clients can. Both axes are"
        " logarithmic."
    )
    return Figure("throughput-latency", title, caption, data, charts.target_chart(data))


def peers_figure(peers: Peers, figure: str, cases: Collection[str] = ()) -> Figure:
    """The medians of one figure by case and program, all cases unless some are named."""
    heading = next((one.heading for one in peers.figures if one.name == figure), figure)
    rows = [
        (row.case, row.program, value)
        for row in peers.rows()
        if (not cases or row.case in cases) and (value := row.figures.get(figure)) is not None
    ]
    data = frame(rows, {"case": str, "program": str, "value": float})
    title = f"{figure[:1].upper()}{figure[1:]}"
    name = re.sub(r"[^a-z0-9]+", "-", figure.lower())
    return Figure(name, title, f"{heading}, medians.", data, charts.bar_chart(data, heading))


def curve_frame(curves: Sequence[Curve]) -> pl.DataFrame:
    """One row per point of each curve. A logarithmic axis has no place for 0 ns."""
    points = [
        (curve.panel, f"{curve.time} time", quantile, ns)
        for curve in curves
        for quantile, ns in curve.points
        if ns > 0
    ]
    return frame(points, {"panel": str, "time": str, "quantile": float, "ns": int})


def quantile_figure(curves: Sequence[Curve], subject: str) -> Figure:
    """Times at every quantile, one panel per workload or operation."""
    data = curve_frame(curves)
    title = "Response and service time at every quantile"
    caption = (
        f"{subject} The horizontal axis stretches the tail: each step to the right "
        "leaves a tenth of the operations above it. Both axes are logarithmic."
    )
    return Figure("quantiles", title, caption, data, charts.quantile_chart(data))


def rate_figure(
    intervals: pl.DataFrame,
    phases: Sequence[Segment],
    faults: Sequence[FaultSpan] = (),
    shown: Collection[str] = (),
) -> Figure:
    """Completed rate of each interval over the run's time, in the ``shown`` phases if any."""
    caption = "Operations completed per second in each interval, whatever their outcome."
    caption += _FAULTS_CAPTION if faults else ""
    if left_out := [phase.name for phase in phases if shown and phase.name not in shown]:
        # A load or a read-back as fast as possible would flatten the measured rate.
        caption += f" Phases left out: {listed(dict.fromkeys(left_out))}."
        phases = [phase for phase in phases if phase.name in shown]
        intervals = intervals.filter(pl.col("phase_name").is_in(list(shown)))
    data = _interval_frame(intervals, {"completed": "count"})
    spec = charts.rate_chart(data, charts.background(phases, faults))
    return Figure("rate", "Completed rate over time", caption, data, spec)


def response_figure(
    intervals: pl.DataFrame,
    phases: Sequence[Segment],
    faults: Sequence[FaultSpan] = (),
    time: TimeName = "response",
) -> Figure:
    """Quantiles of a time in each interval over the run's time."""
    data = _interval_frame(intervals, interval_quantiles(time))
    caption = "Quantiles over the operations completed in each interval, on a logarithmic axis."
    caption += _FAULTS_CAPTION if faults else ""
    spec = charts.response_chart(data, charts.background(phases, faults), f"{time} time")
    return Figure("response", f"{time.capitalize()} time over time", caption, data, spec)


def interval_quantiles(time: TimeName) -> dict[str, str]:
    """The columns of a time's quantiles in an interval, by quantile."""
    return {name: f"{time}_ns_{name}" for name in ("p50", "p99", "max")}


def _interval_frame(intervals: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """One row per interval, group and column; null without a completed operation."""
    intervals = intervals.filter(~pl.col("drain"))
    # One interval makes no line: a short load would only use a colour.
    lines = intervals.filter(pl.len().over("group") > 1)
    intervals = intervals if lines.is_empty() else lines
    group = pl.col("group") + ", " if intervals["group"].n_unique() > 1 else pl.lit("")
    return pl.concat(
        intervals.select("start_ns", "end_ns", series=group + name, value=column)
        for name, column in columns.items()
    )


def course_figures(run: RunAnswer) -> Iterator[Figure]:
    """The figures of a run's course that have data, in order."""
    spread, behind = run.spread, charts.background(run.phases, run.faults)
    if not spread.is_empty():
        caption = (
            "Each cell is a stretch of the run and of response times; the fuller its colour, the"
            " more of that stretch's operations it holds. What a median hides stands here: two"
            " humps, stalls, a tail that comes and goes."
        )
        # The first layer, the bands, would hide the cells.
        spec = charts.spread_chart(spread, behind[1:])
        yield Figure("spread", "Spread of response time over time", caption, spread, spec)
    # A line needs two points.
    resources = run.resources if run.resources.height > 1 else pl.DataFrame()
    nodes = _nodes_text(resources)
    classes: list[str] = []
    if not run.failures.is_empty():
        classes = run.failures["outcome"].unique().sort().to_list()
    for recorded, name, title, caption, (series, value, unit) in (
        (run.attempts, "attempts", "Attempts",
         "Attempts, operations that ended, and those that succeeded, per second.",
         ("series", "value", "per second")),
        (run.hits, "hits", "Hit ratio",
         "Share of reads that found their record, by group; the others are followed by a fill.",
         ("series", "value", "share")),
        (run.failures, "failures", "Errors by class",
         f"Operations that failed in each interval, by error class: {', '.join(classes)}.",
         ("outcome", "count", "operations")),
        (resources, "cores", "Processor", f"Cores kept busy by {nodes}, over each second.",
         ("node", "cores", "cores")),
        (resources, "memory", "Memory", f"Resident memory of {nodes}.",
         ("node", "resident_bytes", "bytes")),
    ):  # fmt: skip
        if recorded.is_empty():
            continue
        data = recorded.select("start_ns", "end_ns", pl.col(series).alias("series"), value=value)
        spec = charts.course_chart(data, behind, unit)
        yield Figure(name, f"{title} over time", caption, data, spec)


def _nodes_text(resources: pl.DataFrame) -> str:
    nodes = [] if resources.is_empty() else resources["node"].unique().to_list()
    ours = ["the command"] if COORDINATOR in nodes else []
    if all(map(is_ours, nodes)):
        return f"{listed([*ours, 'the generator'])}, which an embedded system is part of"
    return listed([*ours, "the generator", "each server"])


def summary_frame(summary: Summary) -> pl.DataFrame:
    """One row per counted phase, group and operation; null with too few operations."""
    rows: list[tuple[object, ...]] = []
    for phase in summary.phases:
        for row in phase.operations:
            figures = [
                figure
                for time in (row.response, row.service, row.wait)
                for figure in (time.mean_ns, *map(time.shown_ns, _QUANTILES), time.max_ns)
            ]
            place = (phase.name, row.group, row.operation, row.part)
            rows.append((*place, row.count, sum(row.others.values()), *figures))
    return frame(rows, _SUMMARY)


def histogram_frame(run: Run) -> pl.DataFrame:
    """One row per bucket with a count; its bounds in nanoseconds are inclusive.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    names = {phase.index: phase.name for phase in run.counted}
    parts = [
        pl.DataFrame({"low_ns": counts.low, "high_ns": counts.high, "count": counts.count}).select(
            phase=pl.lit(names[total.phase]), group=pl.lit(total.group),
            operation=pl.lit(total.operation), part=pl.lit(total.part),
            outcome=pl.lit(total.outcome), time=pl.lit(time),
            low_ns="low_ns", high_ns="high_ns", count="count",
        )
        for total in run.manifest.engine.totals if total.phase in names for time in _TIMES
        if (counts := run.times(total, time)).n
    ]  # fmt: skip
    return pl.concat(parts) if parts else pl.DataFrame(schema={**_OPERATION, **_BUCKET})


def runs_frame(lines: Sequence[RunLine]) -> pl.DataFrame:
    """One row per run of a list."""
    rows = [
        (
            entry.id, entry.created, entry.name, f"{entry.system} {entry.version}".strip(),
            entry.state, line.throughput, line.response_ns_p99,
            line.judgement.value if line.judgement else None, list(entry.tags),
        )
        for line in lines for entry in (line.entry,)
    ]  # fmt: skip
    return frame(rows, _RUN)
