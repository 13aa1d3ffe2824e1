"""YCSB's results, as text and as JSON.

The text has status lines during the run, then `[METRIC], Measurement, value`. The JSON exporters
write an array of measurements, or one object after another.

A measurement is a metric (`READ`, `OVERALL`), a name (`AverageLatency(us)`) and a value. After the
fixed names come those of the measurement type: a histogram's buckets or a time series.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from kvmark.imports.reading import NS, Collector, Format, Interval, Reading, first_line
from kvmark.imports.source import NUMBER, Source, json_number, number, shown
from kvmark.records import TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT
from kvmark.stats import Counts

_TOOL: Final = "YCSB"
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
_PARTS: Final = frozenset({"READ", "UPDATE"})
_SINGLE: Final = ("READ", "UPDATE", "INSERT", "SCAN", "DELETE")
_MODIFY: Final = "READ-MODIFY-WRITE"

_OVERALL_ROW: Final = re.compile(r"\[OVERALL\], RunTime\(ms\), ")
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
# What else may fall between the results: a logger's line in whatever form, but none of YCSB's own.
_BESIDE: Final = re.compile(r"[^\[].*\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b.*|DBWrapper: .*")

_JSON_ROW: Final = re.compile(r'\s*\[?\s*\{\s*"metric"\s*:')
_SPACE: Final = re.compile(r"\s*")
_KEYS: Final = frozenset({"metric", "measurement", "value"})


@dataclass(frozen=True, slots=True)
class _Measurement:
    """One measurement and the line it stands in."""

    line: int | None
    metric: str
    name: str
    value: int | float | None


def _collect(found: Collector, measurements: Sequence[_Measurement]) -> None:
    """Adds all measurements of a result.

    Raises:
        ImportFileError: one stands twice, or some are missing.
    """
    found.case()
    buckets: dict[str, list[_Measurement]] = {}
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


def _time_of(metric: str) -> tuple[str, TimeName]:
    """The operation of a series and the time it measured."""
    if metric.startswith(_INTENDED):
        return metric.removeprefix(_INTENDED), "response"
    return metric, "service"


def _add(found: Collector, each: _Measurement) -> None:
    operation, time = _time_of(each.metric)
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


def _add_buckets(found: Collector, metric: str, rows: Sequence[_Measurement]) -> None:
    """The histogram, or the time series, that stands behind an operation's figures."""
    operation, time = _time_of(metric)
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
    found: Collector, operation: str, time: TimeName, rows: Sequence[_Measurement], width_us: int
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
    found: Collector, operation: str, time: TimeName, rows: Sequence[_Measurement]
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


def _check_whole(found: Collector, measurements: Sequence[_Measurement]) -> None:
    """Refuses a result that ends too early: its operations must add up to those of [OVERALL]."""
    last = measurements[-1].line if measurements else None
    runtime_ms, rate = found.value(RUNTIME), found.value(THROUGHPUT)
    if runtime_ms is None or rate is None:
        raise found.source.error(last, "[OVERALL] isn't whole: the file may be cut off")
    metrics = dict.fromkeys(each.metric for each in measurements)
    for metric in metrics:
        operation, time = _time_of(metric)
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
    names = {_time_of(metric)[0] for metric in metrics}
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


def _read_text(source: Source) -> Reading:
    source.ends()
    found = Collector(source, _TOOL)
    measurements: list[_Measurement] = []
    before = (0, 0)
    for line, text in found.lines():
        measured = _MEASUREMENT.fullmatch(text)
        status = _STATUS.match(text)
        if measured:
            value = number(source, line, measured[3])
            measurements.append(_Measurement(line, measured[1], measured[2], value))
        elif status:
            now = (int(status[1]), int(status[2]))
            _add_status(found, line, text, before, now)
            before = now
        elif not measurements:
            _take_header(found, text)
        elif _BESIDE.fullmatch(text):
            found.passed_over += 1
        elif text.strip():
            message = f"{shown(text)} stands between YCSB's results: the file is mixed or damaged"
            raise source.error(line, message)
    if not measurements:
        raise source.error(len(source.lines), "it ends before YCSB's results: it may be cut off")
    _collect(found, measurements)
    return found.done()


def _take_header(found: Collector, text: str) -> None:
    if text.startswith(_COMMAND):
        command = text.removeprefix(_COMMAND).strip()[:_LONGEST]
        found.said["command line"] = command
        binding = _BINDING.search(command)
        if binding:
            # The class is named after its package: site.ycsb.db.rocksdb.RocksDBClient.
            found.system = binding[2].removesuffix("Client") or binding[1]
    version = _VERSION.match(text)
    if version:
        found.version = version[1]


def _add_status(
    found: Collector, line: int, text: str, before: tuple[int, int], now: tuple[int, int]
) -> None:
    """The operations of a status line; both instants are a second and the operations until then.

    Seconds are whole: an interval whose line came within the same second has no known length.
    """
    if now < before:
        raise found.source.error(line, "its seconds run backwards: lines are mixed up")
    start_ns, end_ns = before[0] * NS["s"], now[0] * NS["s"]
    if now[1] > before[1]:
        count = now[1] - before[1]
        found.interval(line, Interval(0, None, start_ns, end_ns, count, written={"Count": count}))
    for summary in _SUMMARY.finditer(text):
        operation, time = _time_of(summary[1])
        count = int(summary[2])
        values = {
            _FIELDS.get(name, f"p{name}"): number(found.source, line, v)
            for name, v in _FIELD.findall(summary[3])
        }
        known = {name: value * NS["us"] for name, value in values.items() if value is not None}
        times = known if count else {}
        found.interval(
            line,
            Interval(
                0,
                operation,
                start_ns,
                end_ns,
                count,
                times={time: times} if times else {},
                written={"Count": count, **values},
            ),
        )


_begins_text = first_line(
    lambda text: (
        _OVERALL_ROW.match(text)
        or text.startswith("YCSB Client ")
        or (text.startswith(_COMMAND) and "-db " in text)
    )
)
YCSB_TEXT: Final = Format("ycsb-text", "YCSB text", _begins_text, _read_text)


def _begins_json(source: Source) -> int | None:
    return 1 if _JSON_ROW.match(source.json_text) else None


def _read_json(source: Source) -> Reading:
    found = Collector(source, _TOOL)
    measurements = [_measurement(source, line, each) for line, each in _objects(source)]
    if not measurements:
        raise source.error(1, "it holds no measurement")
    _collect(found, measurements)
    found.pass_over()
    return found.done()


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
    """The objects, with their lines where they stand one after another."""
    if source.json_text.lstrip().startswith("["):
        document = source.document
        return [(None, each) for each in document] if isinstance(document, list) else []
    decoder, text = json.JSONDecoder(), source.json_text
    end_of_text = len(text.rstrip())
    at, line = 0, 1
    found: list[tuple[int | None, Any]] = []
    while at < end_of_text:
        space = _SPACE.match(text, at)
        start = at if space is None else space.end()
        line += text.count("\n", at, start)
        try:
            each, at = decoder.raw_decode(text, start)
        except (RecursionError, ValueError) as problem:
            message = "a measurement can't be read: the file may be cut off or damaged"
            raise source.error(line, message) from problem
        found.append((line, each))
        line += text.count("\n", start, at)
    return found


YCSB_JSON: Final = Format(
    "ycsb-json", "YCSB JSON", _begins_json, _read_json, is_json=True, is_whole_file=True
)
