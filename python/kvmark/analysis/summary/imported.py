"""What an imported run says, in common terms: rates in ops/s, times in nanoseconds.

A figure that the tool didn't give is None or left out; none is substituted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kvmark.analysis.summary.chart_data import TimeSteps, steps_of
from kvmark.analysis.summary.run import QUANTILES, quantile_curve
from kvmark.records import BucketsRecord, FigureRecord, ImportedRecord, Run, TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, TIMES, VALUE
from kvmark.stats import Counts, Level, rate_of_intervals

_NS: Mapping[str, float] = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RATES = frozenset({"ops/s", "op/s"})
_MEDIAN = "median"
_FULL = 0.9
_MOST_CURVES = 24
_FINE = 0.1


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """A case, or one operation of it, in common terms."""

    case: int
    labels: Mapping[str, str]
    #: None for the whole case.
    operation: str | None
    throughput: float | None
    runtime_ms: float | None
    operations: int | None
    #: Nanoseconds by time and statistic: ``mean``, ``min``, ``max``, ``p50``, ``p99``, ``p999``, ….
    times_ns: Mapping[TimeName, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """Times by quantile, as far as there are enough operations, or a tool gave them."""

    #: The workload or operation whose curves share a panel.
    panel: str
    time: TimeName
    #: Quantile in [0, 1) and nanoseconds, in rising order.
    points: tuple[tuple[float, int], ...]


def imported_rows(imported: ImportedRecord) -> tuple[ImportedRow, ...]:
    """Every case and operation that has a figure, in the file's order."""
    named: dict[tuple[int, str | None], list[FigureRecord]] = {}
    for figure in imported.figures:
        named.setdefault((figure.case, figure.operation), []).append(figure)
    histograms = {(each.case, each.operation): each for each in imported.histograms}
    return tuple(
        _row(imported, case, operation, figures, histograms.get((case, operation)))
        for (case, operation), figures in named.items()
    )


def imported_level(run: Run) -> Level | None:
    """The tool's throughput of the first case, with the error that its intervals give.

    None where it is 0, or when the tool gave neither a throughput nor intervals with counts.
    """
    imported = run.manifest.imported
    if imported is None:
        return None
    rows = [row for row in imported_rows(imported) if (row.case, row.operation) == (0, None)]
    stated = next((row.throughput for row in rows), None)
    rates = _interval_rates(run)
    value = stated if stated is not None else math.fsum(rates) / len(rates) if rates else 0.0
    return rate_of_intervals(value, rates) if value > 0 else None


def _interval_rates(run: Run) -> list[float]:
    """Operations per second of the first case's intervals, without those that were cut short."""
    length = pl.col("end_ns") - pl.col("start_ns")
    rows = run.intervals.filter(
        (pl.col("phase") == 0) & (pl.col("operation") == "TOTAL") & (length > 0)
    )
    if rows.is_empty() or rows["count"].null_count():
        return []
    full = rows.filter(length >= _FULL * length.median()).sort("start_ns")
    return [float(rate) for rate in full.select(pl.col("count") * 1e9 / length).to_series()]


def imported_curves(imported: ImportedRecord) -> tuple[Curve, ...]:
    """Quantile curves: of histograms where there are some, else of the quantiles given.

    Files with many cases have too many curves for one chart, and none is drawn.
    """
    curves: list[Curve] = []
    drawn: set[tuple[int, str | None, TimeName]] = set()
    for each in imported.histograms:
        points = quantile_curve(_counts(each))
        if points:
            drawn.add((each.case, each.operation, each.time))
            curves.append(Curve(_panel(imported, each.case, each.operation), each.time, points))
    given: dict[tuple[int, str | None, TimeName], dict[float, int]] = {}
    for figure in imported.figures:
        time = next((time for time in TIMES if time == figure.quantity), None)
        q, ns = _share(figure.statistic), _ns(figure)
        if time is not None and q is not None and ns is not None and ns >= 0:
            given.setdefault((figure.case, figure.operation, time), {})[q] = round(ns)
    for (case, operation, time), found in given.items():
        if (case, operation, time) not in drawn and len(found) > 1:
            panel = _panel(imported, case, operation)
            curves.append(Curve(panel, time, tuple(sorted(found.items()))))
    return tuple(curves) if len(curves) <= _MOST_CURVES else ()


def imported_steps(imported: ImportedRecord) -> TimeSteps | None:
    """The times of a file's only case along an axis; none without histograms as fine as the axis.

    The first of response, service and wait time that a histogram tells.
    """
    fine = [each for each in imported.histograms if each.count and _is_fine(each)]
    time = next((time for time in TIMES for each in fine if each.time == time), None)
    if time is None or len(imported.cases) != 1:
        return None
    of_time = [each for each in fine if each.time == time]
    named = [each for each in of_time if each.operation is not None] or of_time
    kinds = {("", each.operation or "all operations"): _counts(each) for each in named}
    return steps_of(time, kinds)


def _is_fine(histogram: BucketsRecord) -> bool:
    """Whether no range is wider than a tenth of its values, so that it has one place on an axis."""
    ranges = zip(histogram.low_ns, histogram.high_ns, strict=True)
    return all(high - low <= _FINE * max(high, 1) for low, high in ranges)


def _row(
    imported: ImportedRecord,
    case: int,
    operation: str | None,
    figures: Sequence[FigureRecord],
    histogram: BucketsRecord | None,
) -> ImportedRow:
    plain = {figure.quantity: figure for figure in figures if figure.statistic == VALUE}
    rates = {f.quantity: f for f in figures if f.statistic == "mean" and f.unit in _RATES}
    rate = plain.get(THROUGHPUT) or rates.get(THROUGHPUT)
    runtime, count = plain.get(RUNTIME), plain.get(OPERATIONS)
    runtime_ns = None if runtime is None else _ns(runtime)
    times: dict[TimeName, dict[str, float]] = {}
    if histogram is not None:
        counts = _counts(histogram)
        known = {name: counts.quantile(q) for name, q in QUANTILES.items() if counts.shows(q)}
        times[histogram.time] = {name: float(ns) for name, ns in known.items() if ns is not None}
    for time in TIMES:
        for figure in figures:
            ns = _ns(figure) if figure.quantity == time else None
            if ns is not None and ns >= 0:
                # As our summaries have it: `p999` for `p99.9`.
                name = "p50" if figure.statistic == _MEDIAN else figure.statistic.replace(".", "")
                times.setdefault(time, {})[name] = ns
    return ImportedRow(
        case=case,
        labels=imported.cases[case].labels,
        operation=operation,
        throughput=float(rate.value) if rate is not None and rate.unit in _RATES else None,
        runtime_ms=None if runtime_ns is None else runtime_ns / 1e6,
        operations=None if count is None else int(count.value),
        times_ns=times,
    )


def _ns(figure: FigureRecord) -> float | None:
    unit_ns = _NS.get(figure.unit)
    return None if unit_ns is None else figure.value * unit_ns


def _counts(histogram: BucketsRecord) -> Counts:
    columns = (histogram.low_ns, histogram.high_ns, histogram.count)
    return Counts(*(np.array(column, dtype=np.int64) for column in columns))


def _panel(imported: ImportedRecord, case: int, operation: str | None) -> str:
    name = imported.cases[case].name if len(imported.cases) > 1 else ""
    return ", ".join(part for part in (name, operation) if part) or "all operations"


def _share(statistic: str) -> float | None:
    """The quantile that a statistic names; none for others."""
    if statistic == _MEDIAN:
        return 0.5
    digits = statistic.removeprefix("p")
    if digits == statistic or not digits.replace(".", "", 1).isdigit():
        return None
    q = float(digits) / 100
    return q if 0 < q < 1 else None
