"""What an imported run says, in common terms: rates in ops/s, times in nanoseconds.

A figure that the tool didn't give is None or left out; none is substituted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from kvmark.analysis.summary.run import QUANTILES, quantile_curve
from kvmark.analysis.summary.time_steps import TimeSteps, steps_of
from kvmark.analysis.verdict.rules import RULES, Level, Reason
from kvmark.records import BucketsRecord, FigureRecord, ImportedRecord, Run, TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, TIMES, VALUE
from kvmark.stats import Counts, Estimate, rate_of_intervals
from kvmark.stats import Level as RateLevel

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


def imported_throughput(run: Run, case: int = 0) -> Estimate | None:
    """The tool's throughput of a case, with the error that its intervals give.

    None when the tool gave neither a throughput nor intervals with counts.
    """
    found = imported_level(run, case)
    return None if found is None else found.plain("ops/s")


def imported_level(run: Run, case: int = 0) -> RateLevel | None:
    """The same as a level; none where it is 0, too."""
    imported = run.manifest.imported
    if imported is None:
        return None
    rows = [row for row in imported_rows(imported) if (row.case, row.operation) == (case, None)]
    stated = next((row.throughput for row in rows), None)
    rates = imported_rates(run, case)
    value = stated if stated is not None else math.fsum(rates) / len(rates) if rates else 0.0
    return rate_of_intervals(value, rates) if value > 0 else None


def imported_curves(imported: ImportedRecord) -> tuple[Curve, ...]:
    """Quantile curves: of histograms where there are some, else of the quantiles given.

    Files with many cases have too many curves for one chart, and none is drawn.
    """
    curves = list(_curves(imported))
    return tuple(curves) if len(curves) <= _MOST_CURVES else ()


def imported_steps(imported: ImportedRecord) -> TimeSteps | None:
    """The times of a file's only case along an axis; none without histograms as fine as the axis.

    The first of response, service and wait time that a histogram tells.
    """
    fine = [each for each in imported.histograms if each.count and _is_fine(each)]
    time = next((time for time in TIMES for each in fine if each.time == time), None)
    if time is None or len(imported.cases) != 1:
        return None
    told = [each for each in fine if each.time == time]
    named = [each for each in told if each.operation is not None] or told
    kinds = {("", each.operation or "all operations"): _counts(each) for each in named}
    return steps_of(time, kinds)


def _is_fine(histogram: BucketsRecord) -> bool:
    """Whether no range is wider than a tenth of its values, so that it has one place on an axis."""
    ranges = zip(histogram.low_ns, histogram.high_ns, strict=True)
    return all(high - low <= _FINE * max(high, 1) for low, high in ranges)


def imported_reason(imported: ImportedRecord) -> Reason:
    """Why an imported run isn't judged."""
    origin, rule = imported.origin, RULES["imported"]
    tool = f" from {origin.tool}" if origin.tool else ""
    evidence: dict[str, float | int | str] = {"file": origin.file, "format": origin.format}
    return Reason(
        code=rule.code,
        level=Level.SUSPECT,
        phase=None,
        sentence=(
            f"Imported{tool}: not judged, since how load was offered and what was left out isn't"
            " known."
        ),
        evidence=evidence,
        threshold=rule.threshold(Level.SUSPECT),
        advice=rule.advice,
    )


def _row(
    imported: ImportedRecord,
    case: int,
    operation: str | None,
    figures: Iterable[FigureRecord],
    histogram: BucketsRecord | None,
) -> ImportedRow:
    plain = {figure.quantity: figure for figure in figures if figure.statistic == VALUE}
    rates = {f.quantity: f for f in figures if f.statistic == "mean" and f.unit in _RATES}
    rate = plain.get(THROUGHPUT) or rates.get(THROUGHPUT)
    runtime, count = plain.get(RUNTIME), plain.get(OPERATIONS)
    times: dict[TimeName, dict[str, float]] = {}
    if histogram is not None:
        times[histogram.time] = _quantiles(histogram)
    for time in TIMES:
        given = {f.statistic: _time_ns(f) for f in figures if f.quantity == time}
        known = {_common(name): ns for name, ns in given.items() if ns is not None}
        if known:
            times[time] = {**times.get(time, {}), **known}
    return ImportedRow(
        case=case,
        labels=imported.cases[case].labels,
        operation=operation,
        throughput=float(rate.value) if rate is not None and rate.unit in _RATES else None,
        runtime_ms=None if runtime is None else _milliseconds(runtime),
        operations=None if count is None else int(count.value),
        times_ns=times,
    )


def _milliseconds(figure: FigureRecord) -> float | None:
    ns = _NS.get(figure.unit)
    return None if ns is None else figure.value * ns / 1e6


def _time_ns(figure: FigureRecord) -> float | None:
    ns = _NS.get(figure.unit)
    return None if ns is None or figure.value < 0 else figure.value * ns


def _common(statistic: str) -> str:
    """The name of a statistic as our summaries have it: `p999` for `p99.9`."""
    if statistic == _MEDIAN:
        return "p50"
    return statistic.replace(".", "")


def _counts(histogram: BucketsRecord) -> Counts:
    columns = (histogram.low_ns, histogram.high_ns, histogram.count)
    return Counts(*(np.array(column, dtype=np.int64) for column in columns))


def _quantiles(histogram: BucketsRecord) -> dict[str, float]:
    counts = _counts(histogram)
    known = {name: counts.quantile(q) for name, q in QUANTILES.items() if counts.shows(q)}
    return {name: float(ns) for name, ns in known.items() if ns is not None}


def imported_rate(run: Run) -> float | None:
    """The throughput of a run with one case; none where there are several, or none was given."""
    imported = run.manifest.imported
    if imported is None or len(imported.cases) != 1:
        return None
    found = imported_throughput(run)
    return None if found is None else found.value


def imported_rates(run: Run, case: int = 0) -> list[float]:
    """Operations per second of a case's intervals, without those that were cut short."""
    if run.manifest.imported is None:
        return []
    length = pl.col("end_ns") - pl.col("start_ns")
    rows = run.intervals.filter(
        (pl.col("phase") == case) & (pl.col("operation") == "TOTAL") & (length > 0)
    )
    if rows.is_empty() or rows["count"].null_count():
        return []
    full = rows.filter(length >= _FULL * length.median()).sort("start_ns")
    return [float(rate) for rate in full.select(pl.col("count") * 1e9 / length).to_series()]


def _curves(imported: ImportedRecord) -> Iterator[Curve]:
    drawn: set[tuple[int, str | None, TimeName]] = set()
    for each in imported.histograms:
        points = quantile_curve(_counts(each))
        if points:
            drawn.add((each.case, each.operation, each.time))
            yield Curve(_panel(imported, each.case, each.operation), each.time, points)
    given: dict[tuple[int, str | None, TimeName], dict[float, int]] = {}
    for figure in imported.figures:
        time = next((time for time in TIMES if time == figure.quantity), None)
        q, ns = _share(figure.statistic), _time_ns(figure)
        if time is not None and q is not None and ns is not None:
            given.setdefault((figure.case, figure.operation, time), {})[q] = round(ns)
    for (case, operation, time), found in given.items():
        if (case, operation, time) not in drawn and len(found) > 1:
            panel = _panel(imported, case, operation)
            yield Curve(panel, time, tuple(sorted(found.items())))


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
