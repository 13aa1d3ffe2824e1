"""The rows behind a figure, as they are recorded or were computed by the analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from kvmark.analysis import SequenceRow
from kvmark.report import units
from kvmark.report.answers import Curve

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
_CURVES = {
    "panel": pl.String(),
    "time": pl.String(),
    "quantile": pl.Float64(),
    "ns": pl.Int64(),
}


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
