"""YCSB's results, as text and as JSON.

The text has status lines during the run, then `[METRIC], Measurement, value`. The JSON exporters
write an array of measurements, or one object after another.

A measurement has a metric (`READ`, `OVERALL`), a name (`AverageLatency(us)`) and a value. The fixed
names are followed by those of the measurement type: a histogram's buckets or a time series.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from kvmark.imports.reading import NS, Collector, Format, Interval, first_line
from kvmark.imports.source import NUMBER, Source, json_number, number, shown
from kvmark.records import TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT
from kvmark.stats import Counts

_INTENDED: Final = "Intended-"
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
_SINGLE: Final = ("READ", "UPDATE", "INSERT", "SCAN", "DELETE")

_BEGIN: Final = re.compile(r"\[OVERALL\], RunTime\(ms\), |YCSB Client |Command line: .*-db ")
_MEASUREMENT: Final = re.compile(r"\[([^\[\]]+)\], ([^,]+), ?(.*)")
_STATUS: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d:\d{{3}} (\d{{1,9}}) sec: (\d{{1,15}}) operations;"
    rf"(?: ({NUMBER}) current ops/sec;)?"
)
_SUMMARY: Final = re.compile(r"\[([\w-]+): Count=(\d{1,15}), ([^\]]*)\]")
_FIELD: Final = re.compile(rf"(Max|Min|Avg|\d+(?:\.\d+)?)=({NUMBER})")
_FIELDS: Final = {"Max": "max", "Min": "min", "Avg": "mean"}
_VERSION: Final = re.compile(r"YCSB Client (\S+)")
_COMMAND: Final = "Command line: "
_BINDING: Final = re.compile(r"-db (?:\w+\.)*?(\w+)\.(\w+)(?:\s|$)")
_LONGEST: Final = 10_000
# Other lines among the results: any logger's, but none of YCSB's own.
_FOREIGN: Final = re.compile(r"[^\[].*\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b.*|DBWrapper: .*")

_JSON_ROW: Final = re.compile(r'\s*\[?\s*\{\s*"metric"\s*:')
_SPACE: Final = re.compile(r"\s*")
_KEYS: Final = frozenset({"metric", "measurement", "value"})


@dataclass(frozen=True, slots=True)
class _Measurement:
    line: int | None
    metric: str
    name: str
    value: int | float | None


def _collect(collector: Collector, measurements: Sequence[_Measurement]) -> None:
    """Adds all measurements of a result.

    Raises:
        ImportFileError: a measurement occurs twice, or some are missing.
    """
    collector.case()
    buckets: dict[str, list[_Measurement]] = {}
    for one in measurements:
        named = _UNIT.fullmatch(one.name)
        quantity, unit = (named[1], named[2]) if named else (one.name, "")
        if _BUCKET.fullmatch(one.name):
            buckets.setdefault(one.metric, []).append(one)
        elif one.metric == "OVERALL":
            quantity, unit = _OVERALL.get(one.name, (quantity, unit))
            collector.add(one.line, quantity, one.value, unit)
        elif one.metric.startswith("TOTAL_GC"):
            collector.add(one.line, f"{one.metric} {quantity}", one.value, unit)
        else:
            _add(collector, one, quantity, unit)
    for metric, rows in buckets.items():
        _add_buckets(collector, metric, rows)
    _check_complete(collector, measurements)


def _time_of(metric: str) -> tuple[str, TimeName]:
    """The operation of a series, and its time."""
    if metric.startswith(_INTENDED):
        return metric.removeprefix(_INTENDED), "response"
    return metric, "service"


def _of_series(quantity: str, time: TimeName) -> str:
    """The name of a quantity: both series of an operation have it."""
    return quantity if time == "service" else f"{quantity} (intended)"


def _add(collector: Collector, one: _Measurement, quantity: str, unit: str) -> None:
    operation, time = _time_of(one.metric)
    timed = _TIME.fullmatch(one.name)
    if timed and timed[2] in NS:
        digits = re.sub(r"[^\d.]", "", timed[1])
        statistic = _STATISTIC.get(timed[1]) or f"p{digits}"
        # A time series without operations has -1.
        value = None if one.value is not None and one.value < 0 else one.value
        collector.add(one.line, time, value, timed[2], statistic=statistic, operation=operation)
        return
    if one.name == _VARIANCE:
        quantity, unit = f"{time} variance", "us²"
    else:
        quantity = _of_series(OPERATIONS if one.name == "Operations" else quantity, time)
    collector.add(one.line, quantity, one.value, unit, operation=operation)


def _add_buckets(collector: Collector, metric: str, rows: Sequence[_Measurement]) -> None:
    """The histogram of an operation, or its time series."""
    values = [row.value for row in rows]
    whole = all(value is not None and value == int(value) for value in values)
    counted = sum(filter(None, values))
    if any(row.name.startswith(">") for row in rows):
        _add_histogram(collector, metric, rows, width_us=1000)
    elif whole and counted == collector.value(OPERATIONS, operation=_time_of(metric)[0]):
        _add_histogram(collector, metric, rows, width_us=1)
    else:
        _add_series(collector, metric, rows)


def _add_histogram(
    collector: Collector, metric: str, rows: Sequence[_Measurement], width_us: int
) -> None:
    """Buckets of YCSB's ``histogram`` are a millisecond wide, HdrHistogram's have their end.

    The last bucket has no upper end: a histogram with operations in it is left out.
    """
    operation, time = _time_of(metric)
    beyond = sum(row.value or 0 for row in rows if row.name.startswith(">"))
    if beyond:
        collector.notes.append(
            f"{beyond:g} operations of {operation} lie beyond YCSB's last bucket: its histogram is"
            " left out."
        )
    buckets: dict[int, int] = {}
    inside = [row for row in rows if row.value and not row.name.startswith(">")]
    for row in inside:
        if row.value is None or not 0 < row.value < 2**53 or row.value != int(row.value):
            raise collector.source.error(row.line, "the count of a bucket isn't a whole number")
        buckets[int(row.name) * width_us * NS["us"]] = int(row.value)
    if beyond:
        return
    if len(buckets) < len(inside):
        raise collector.source.error(inside[0].line, f"a bucket of {operation} occurs twice")
    low = np.array(sorted(buckets), dtype=np.int64)
    high = low + (width_us * NS["us"] - 1 if width_us > 1 else 0)
    counts = np.array([buckets[start_ns] for start_ns in low], dtype=np.int64)
    collector.histogram(Counts(low, high, counts), time, operation=operation)


def _add_series(collector: Collector, metric: str, rows: Sequence[_Measurement]) -> None:
    """Means of YCSB's ``timeseries``, each from its millisecond to the next."""
    operation, time = _time_of(metric)
    starts_ms = [int(row.name) for row in rows]
    steps = [after - before for before, after in pairwise(starts_ms)]
    width_ms = min((step for step in steps if step > 0), default=0)
    for row, start_ms in zip(rows, starts_ms, strict=True):
        interval = Interval(
            case=0, operation=operation, start_ns=start_ms * NS["ms"],
            end_ns=(start_ms + width_ms) * NS["ms"], count=None,
            times={} if row.value is None else {time: {"mean": row.value * NS["us"]}},
            written={"ms": start_ms, "mean us": row.value},
        )  # fmt: skip
        collector.interval(row.line, interval)


def _check_complete(collector: Collector, measurements: Sequence[_Measurement]) -> None:
    """Rejects an incomplete result: its operations must add up to those of [OVERALL]."""
    last = measurements[-1].line if measurements else None
    runtime_ms, rate = collector.value(RUNTIME), collector.value(THROUGHPUT)
    if runtime_ms is None or rate is None:
        raise collector.source.error(last, "[OVERALL] isn't complete: the file may be cut off")
    counts: dict[str, float] = {}
    for metric in dict.fromkeys(one.metric for one in measurements):
        if metric == "OVERALL" or metric.startswith("TOTAL_GC"):
            continue
        operation, time = _time_of(metric)
        count = collector.value(_of_series(OPERATIONS, time), operation=operation)
        largest = collector.value(time, operation=operation, statistic="max")
        if count is None or (count > 0 and largest is None):
            message = f"[{metric}] isn't complete: the file may be cut off"
            raise collector.source.error(last, message)
        counts[operation] = count if time == "service" else counts.get(operation, count)
    single = {name: counts[name] for name in _SINGLE if name in counts}
    failed = sum(count for name, count in counts.items() if name.endswith("-FAILED"))
    # Each read-modify-write is also a READ and an UPDATE.
    parts = single.get("READ", 0) + single.get("UPDATE", 0)
    total = sum(single.values()) - min(counts.get("READ-MODIFY-WRITE", 0), parts / 2) + failed
    overall = rate * runtime_ms / 1000
    if single and total < overall - 0.5 - overall * 1e-6:
        raise collector.source.error(
            last,
            f"its operations add up to {total:g}, those of [OVERALL] to {overall:.0f}: the file may"
            " be cut off",
        )


def _read_text(collector: Collector) -> None:
    source = collector.source
    measurements: list[_Measurement] = []
    before = (0, 0)
    for line, text in collector.lines():
        measured = _MEASUREMENT.fullmatch(text)
        status = _STATUS.match(text)
        if measured:
            value = number(source, line, measured[3])
            measurements.append(_Measurement(line, measured[1], measured[2], value))
        elif status:
            now = (int(status[1]), int(status[2]))
            _add_status(collector, line, text, before, now)
            before = now
        elif not measurements:
            _take_header(collector, text)
        elif _FOREIGN.fullmatch(text):
            collector.passed_over += 1
        elif text.strip():
            message = f"{shown(text)} is among YCSB's results: the file is mixed or damaged"
            raise source.error(line, message)
    if not measurements:
        raise source.error(len(source.lines), "it ends before YCSB's results: it may be cut off")
    _collect(collector, measurements)


def _take_header(collector: Collector, text: str) -> None:
    if text.startswith(_COMMAND):
        command = text.removeprefix(_COMMAND).strip()[:_LONGEST]
        collector.said["command line"] = command
        binding = _BINDING.search(command)
        if binding:
            # The class is named after its package: site.ycsb.db.rocksdb.RocksDBClient.
            collector.system = binding[2].removesuffix("Client") or binding[1]
    version = _VERSION.match(text)
    if version:
        collector.version = version[1]


def _add_status(
    collector: Collector, line: int, text: str, before: tuple[int, int], now: tuple[int, int]
) -> None:
    """The operations of a status line; both instants are seconds and operations so far.

    Seconds are whole: an interval within a second has an unknown length.
    """
    if now < before:
        raise collector.source.error(line, "its seconds run backwards: lines are mixed up")
    start_ns, end_ns = before[0] * NS["s"], now[0] * NS["s"]
    if now[1] > before[1]:
        count = now[1] - before[1]
        collector.interval(
            line, Interval(0, None, start_ns, end_ns, count, written={"Count": count})
        )
    for summary in _SUMMARY.finditer(text):
        operation, time = _time_of(summary[1])
        count = int(summary[2])
        values = {
            _FIELDS.get(name, f"p{name}"): number(collector.source, line, v)
            for name, v in _FIELD.findall(summary[3])
        }
        known = {name: value * NS["us"] for name, value in values.items() if value is not None}
        times: dict[TimeName, dict[str, float]] = {time: known} if count and known else {}
        written = {"Count": count, **values}
        interval = Interval(0, operation, start_ns, end_ns, count, times, written)
        collector.interval(line, interval)


def _read_json(collector: Collector) -> None:
    source = collector.source
    measurements = [_measurement(source, line, each) for line, each in _objects(source)]
    if not measurements:
        raise source.error(1, "it has no measurement")
    _collect(collector, measurements)


def _measurement(source: Source, line: int | None, each: Any) -> _Measurement:
    if not isinstance(each, dict) or set(each) != _KEYS:
        raise source.error(line, "a measurement needs metric, measurement and value")
    metric, name = each["metric"], each["measurement"]
    if not isinstance(metric, str) or not isinstance(name, str):
        raise source.error(line, "metric and measurement must be texts")
    value = each["value"]
    if isinstance(value, str) and value.lower() in {"nan", "infinity", "-infinity"}:
        value = None
    return _Measurement(line, metric, name, json_number(source, f"{metric} {name}", value))


def _objects(source: Source) -> list[tuple[int | None, Any]]:
    """The objects, with their lines unless they are in an array."""
    if source.json_text.lstrip().startswith("["):
        document = source.document
        return [(None, each) for each in document] if isinstance(document, list) else []
    decoder, text = json.JSONDecoder(), source.json_text
    end_of_text = len(text.rstrip())
    at, line = 0, 1
    objects: list[tuple[int | None, Any]] = []
    while at < end_of_text:
        space = _SPACE.match(text, at)
        start = at if space is None else space.end()
        line += text.count("\n", at, start)
        try:
            each, at = decoder.raw_decode(text, start)
        except (RecursionError, ValueError) as problem:
            message = "a measurement can't be read: the file may be cut off or damaged"
            raise source.error(line, message) from problem
        objects.append((line, each))
        line += text.count("\n", start, at)
    return objects


FORMATS: Final = (
    Format(
        "ycsb-json", "YCSB JSON", "YCSB",
        lambda source: 1 if _JSON_ROW.match(source.json_text) else None, _read_json, is_json=True,
    ),
    Format("ycsb-text", "YCSB text", "YCSB", first_line(_BEGIN.match), _read_text),
)  # fmt: skip
