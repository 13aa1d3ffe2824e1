"""What an imported run says, in common terms: rates in ops/s, times in nanoseconds.

A figure that the tool didn't give is None or left out; none is substituted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kvmark.analysis.summary.chart_data import TimeSteps, steps_of
from kvmark.analysis.summary.run import QUANTILES, quantile_curve
from kvmark.errors import UsageError
from kvmark.records import BucketsRecord, FigureRecord, ImportedCase, ImportedRecord, Run, TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, TIMES, VALUE
from kvmark.spec.metric import Metric
from kvmark.spec.suggest import shown
from kvmark.stats import Counts, Level, rate_of_intervals

_NS: Mapping[str, float] = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RATES = frozenset({"ops/s", "op/s"})
_NAMES = {"median": "p50"}
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


def case_runs(run: Run, labels: Sequence[str] = ()) -> list[Run]:
    """An imported run of several cases as a run of each case with these labels, in their order.

    Their ids are the run's with the labels of the case, such as ``RUN#GET``. Other runs have one.

    Raises:
        UsageError: no case has these labels.
    """
    imported = run.manifest.imported
    if not labels and (imported is None or len(imported.cases) == 1):
        return [run]
    if imported is None:
        raise UsageError(f"run {run.id} is no import: name it without a case")
    runs = []
    for index, case in enumerate(imported.cases):
        values = iter(case.choice.lower().split("#"))
        if all(label.strip().lower() in values for label in labels):
            figures, histograms = (
                tuple(one.model_copy(update={"case": 0}) for one in every if one.case == index)
                for every in (imported.figures, imported.histograms)
            )
            content = {"cases": (case,), "figures": figures, "histograms": histograms}
            named = {
                "id": f"{run.id}#{case.choice}",
                "plan": {"name": case.choice, "case": case.labels},
                "imported": imported.model_copy(update=content),
            }
            runs.append(replace(run, manifest=run.manifest.model_copy(update=named)))
    if not runs:
        known = ", ".join(case.choice or "one case without a name" for case in imported.cases)
        raise UsageError(f"run {run.id} has no case {shown('#'.join(labels))}: it has {known}")
    return runs


def imported_level(run: Run) -> Level | None:
    """The tool's throughput of the first case, with the error that its intervals give.

    None where it is 0, or when the tool gave neither a throughput nor intervals with counts.
    """
    imported = run.manifest.imported
    if imported is None:
        return None
    rows = [row for row in imported_rows(imported) if (row.case, row.operation) == (0, None)]
    stated = next((row.throughput for row in rows), None)
    rates = _interval_rates(run, imported.cases[0])
    value = stated if stated is not None else math.fsum(rates) / len(rates) if rates else 0.0
    return rate_of_intervals(value, rates) if value > 0 else None


def imported_value(imported: ImportedRecord, metric: Metric) -> float | None:
    """A figure of the only case; none if it is 0 or unknown, or with several cases.

    The times of all operations are those of the only operation if the file has no others.
    """
    rows = imported_rows(imported) if len(imported.cases) == 1 else ()
    if metric.measure == "throughput":
        return next((row.throughput for row in rows if row.operation == metric.operation), None)
    timed = {
        row.operation: row.times_ns[metric.time] for row in rows if metric.time in row.times_ns
    }
    named, operation = [row.operation for row in rows if row.operation], metric.operation
    if operation is None and None not in timed and len(named) == 1:
        operation = named[0]
    return timed.get(operation, {}).get(metric.quantile or metric.measure) or None


def _interval_rates(run: Run, case: ImportedCase) -> list[float]:
    """Operations per second of a case's intervals, without those that were cut short."""
    length = pl.col("end_ns") - pl.col("start_ns")
    rows = run.intervals.filter(
        pl.col("group") == case.name, pl.col("operation") == "TOTAL", length > 0
    ).drop_nulls("count")
    full = rows.filter(length >= _FULL * length.median()).sort("start_ns")
    return [float(rate) for rate in full.select(pl.col("count") * 1e9 / length).to_series()]


def imported_curves(imported: ImportedRecord) -> tuple[Curve, ...]:
    """Quantile curves: of histograms where there are some, else of the quantiles given.

    Files with many cases have too many curves for one chart, and none is drawn.
    """
    curves = {
        (each.case, each.operation, each.time): points
        for each in imported.histograms
        if (points := quantile_curve(_counts(each)))
    }
    for row in imported_rows(imported):
        for time, times_ns in row.times_ns.items():
            given = sorted((q, round(ns)) for name, ns in times_ns.items() if (q := _share(name)))
            if len(given) > 1:
                curves.setdefault((row.case, row.operation, time), tuple(given))
    return tuple(
        Curve(_panel(imported, case, operation), time, points)
        for (case, operation, time), points in curves.items()
        if len(curves) <= _MOST_CURVES
    )


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
                name = re.sub(r"(?<=\d\d)\.", "", _NAMES.get(figure.statistic, figure.statistic))
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
    """The quantile of a name such as ``p50`` or ``p999``; none for others."""
    whole, _, rest = statistic[1:].partition(".")
    is_quantile = statistic[0] == "p" and f"{whole}{rest}".isdigit() and whole != "100"
    return float(f"0.{whole:0>2}{rest}") if is_quantile else None
