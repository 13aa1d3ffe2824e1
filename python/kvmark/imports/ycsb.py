"""What YCSB's measurements mean, whether they come as text or as JSON.

A measurement is a metric (`READ`, `OVERALL`), a name (`AverageLatency(us)`) and a value. After the
fixed names come those of the measurement type: a histogram's buckets or a time series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from kvmark.imports.reading import NS, Collector, Interval
from kvmark.records import TimeName
from kvmark.records.imported import OPERATIONS, RUNTIME, THROUGHPUT
from kvmark.stats import Counts

__all__ = ["INTENDED", "TOOL", "Measurement", "collect", "time_of"]

TOOL: Final = "YCSB"
INTENDED: Final = "Intended-"
"""Prefix of the series that count from the intended start: response times."""

_OVERALL: Final = {
    "RunTime(ms)": (RUNTIME, "ms"),
    "Throughput(ops/sec)": (THROUGHPUT, "ops/s"),
}
_TIME: Final = re.compile(
    r"(Average|Min|Max|\d+(?:\.\d+)?(?:th|st|nd|rd)?Percentile)Latency\((\w+)\)"
)
_STATISTIC: Final = {"Average": "mean", "Min": "min", "Max": "max"}
_VARIANCE: Final = "LatencyVariance(us)"
_UNIT: Final = re.compile(r"(.+)\(([^()]+)\)")
_BUCKET: Final = re.compile(r">?\d{1,12}")
_PARTS: Final = frozenset({"READ", "UPDATE"})
_SINGLE: Final = ("READ", "UPDATE", "INSERT", "SCAN", "DELETE")
_MODIFY: Final = "READ-MODIFY-WRITE"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement and the line it stands in."""

    line: int | None
    metric: str
    name: str
    value: int | float | None


def collect(found: Collector, measurements: Sequence[Measurement]) -> None:
    """Adds all measurements of a result.

    Raises:
        ImportFileError: one stands twice, or some are missing.
    """
    found.case()
    buckets: dict[str, list[Measurement]] = {}
    for each in measurements:
        if _BUCKET.fullmatch(each.name):
            buckets.setdefault(each.metric, []).append(each)
        elif each.metric == "OVERALL":
            quantity, unit = _OVERALL.get(each.name) or _named(each.name)
            found.add(each.line, quantity, each.value, unit)
        elif each.metric.startswith("TOTAL_GC"):
            quantity, unit = _named(each.name)
            found.add(each.line, f"{each.metric} {quantity}", each.value, unit)
        else:
            _add(found, each)
    for metric, rows in buckets.items():
        _add_buckets(found, metric, rows)
    _check_whole(found, measurements)


def time_of(metric: str) -> tuple[str, TimeName]:
    """The operation of a series and the time it measured."""
    if metric.startswith(INTENDED):
        return metric.removeprefix(INTENDED), "response"
    return metric, "service"


def _add(found: Collector, each: Measurement) -> None:
    operation, time = time_of(each.metric)
    timed = _TIME.fullmatch(each.name)
    if timed and timed[2] in NS:
        statistic = _STATISTIC.get(timed[1]) or f"p{_digits(timed[1])}"
        # A time series without an operation has -1 here.
        value = None if each.value is not None and each.value < 0 else each.value
        found.add(each.line, time, value, timed[2], statistic=statistic, operation=operation)
    elif each.name == _VARIANCE:
        quantity = f"{time} variance"
        found.add(each.line, quantity, each.value, "us²", operation=operation)
    elif each.name == "Operations":
        # Both series of an operation count the same operations.
        quantity = OPERATIONS if time == "service" else f"{OPERATIONS} (intended)"
        found.add(each.line, quantity, each.value, operation=operation)
    else:
        quantity, unit = _named(each.name)
        quantity = quantity if time == "service" else f"{quantity} (intended)"
        found.add(each.line, quantity, each.value, unit, operation=operation)


def _add_buckets(found: Collector, metric: str, rows: Sequence[Measurement]) -> None:
    """The histogram, or the time series, that stands behind an operation's figures."""
    operation, time = time_of(metric)
    if any(row.name.startswith(">") for row in rows):
        _add_histogram(found, operation, time, rows, width_us=1000)
        return
    values = [row.value for row in rows]
    counted = sum(value for value in values if value is not None)
    operations = found.value(OPERATIONS, operation=operation)
    if all(value is not None and value == int(value) for value in values) and counted == operations:
        _add_histogram(found, operation, time, rows, width_us=1)
    else:
        _add_series(found, operation, time, rows)


def _add_histogram(
    found: Collector, operation: str, time: TimeName, rows: Sequence[Measurement], width_us: int
) -> None:
    """Buckets of YCSB's ``histogram`` are a millisecond wide, those of HdrHistogram say their end.

    What lies beyond the last bucket has no upper end: such a histogram isn't whole and is left out.
    """
    inside = [row for row in rows if row.value and not row.name.startswith(">")]
    beyond = sum(row.value or 0 for row in rows if row.name.startswith(">"))
    for row in inside:
        if row.value is None or not 0 < row.value < 2**53 or row.value != int(row.value):
            raise found.source.error(row.line, "the count of a bucket isn't a whole number")
    if beyond:
        found.notes.append(
            f"{beyond:g} operations of {operation} lie beyond YCSB's last bucket: its histogram is"
            " left out."
        )
        return
    starts_us = np.array([int(row.name) * width_us for row in inside], dtype=np.int64)
    if len(np.unique(starts_us)) < len(inside):
        raise found.source.error(inside[0].line, f"a bucket of {operation} stands twice")
    counts = np.array([int(row.value or 0) for row in inside], dtype=np.int64)
    low = starts_us * NS["us"]
    high = low + (width_us * NS["us"] - 1 if width_us > 1 else 0)
    order = np.argsort(low)
    found.histogram(Counts(low[order], high[order], counts[order]), time, operation=operation)


def _add_series(
    found: Collector, operation: str, time: TimeName, rows: Sequence[Measurement]
) -> None:
    """Means of YCSB's ``timeseries``, each from its millisecond to the next."""
    starts_ms = [int(row.name) for row in rows]
    steps = [after - before for before, after in pairwise(starts_ms)]
    width_ms = min((step for step in steps if step > 0), default=None)
    for row, start_ms in zip(rows, starts_ms, strict=True):
        end_ms = start_ms + (width_ms or 0)
        mean_ns = None if row.value is None else row.value * NS["us"]
        found.interval(
            row.line,
            Interval(
                case=0,
                operation=operation,
                start_ns=start_ms * NS["ms"],
                end_ns=end_ms * NS["ms"],
                count=None,
                times={} if mean_ns is None else {time: {"mean": mean_ns}},
                written={"ms": start_ms, "mean us": row.value},
            ),
        )


def _check_whole(found: Collector, measurements: Sequence[Measurement]) -> None:
    """Refuses a result that ends too early: its operations must add up to those of [OVERALL]."""
    last = measurements[-1].line if measurements else None
    runtime_ms, rate = found.value(RUNTIME), found.value(THROUGHPUT)
    if runtime_ms is None or rate is None:
        raise found.source.error(last, "[OVERALL] isn't whole: the file may be cut off")
    metrics = dict.fromkeys(each.metric for each in measurements)
    for metric in metrics:
        operation, time = time_of(metric)
        counted = OPERATIONS if time == "service" else f"{OPERATIONS} (intended)"
        if metric == "OVERALL" or metric.startswith("TOTAL_GC"):
            continue
        count = found.value(counted, operation=operation)
        largest = found.value(time, operation=operation, statistic="max")
        if count is None or (count > 0 and largest is None):
            raise found.source.error(last, f"[{metric}] isn't whole: the file may be cut off")
    _check_sum(found, last, metrics, rate * runtime_ms / 1000)


def _check_sum(
    found: Collector, last: int | None, metrics: Mapping[str, object], done: float
) -> None:
    names = {time_of(metric)[0] for metric in metrics}
    single = {name: _count(found, name) for name in _SINGLE}
    failed = sum(_count(found, name) for name in names if name.endswith("-FAILED"))
    # Each read-modify-write is a READ and an UPDATE too.
    parts = sum(count for name, count in single.items() if name in _PARTS)
    total = sum(single.values()) - min(_count(found, _MODIFY), parts / 2) + failed
    if set(single) & names and total < done - 0.5 - done * 1e-6:
        raise found.source.error(
            last,
            f"its operations add up to {total:g} and [OVERALL] tells of {done:.0f}: the file may be"
            " cut off",
        )


def _count(found: Collector, operation: str) -> float:
    plain = found.value(OPERATIONS, operation=operation)
    intended = found.value(f"{OPERATIONS} (intended)", operation=operation)
    return plain if plain is not None else intended or 0


def _named(name: str) -> tuple[str, str]:
    """A name and the unit in its brackets."""
    with_unit = _UNIT.fullmatch(name)
    return (with_unit[1], with_unit[2]) if with_unit else (name, "")


def _digits(text: str) -> str:
    return re.sub(r"[^\d.]", "", text)
