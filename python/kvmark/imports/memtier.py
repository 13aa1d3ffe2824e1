"""memtier_benchmark's JSON: one or several results, each with a part per kind of command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kvmark.imports.reading import NS, Collector, Format, Interval, decode_bounded
from kvmark.imports.source import Source, json_number
from kvmark.records import TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, VALUE

_RESULT: Final = re.compile(r"ALL STATS|(?:BEST|WORST) RUN RESULTS|AGGREGATED AVERAGE RESULTS.*")
_CONFIGURATION: Final = "configuration"
_RUNTIME: Final = "Runtime"
_TOTALS: Final = "Totals"
_SETTINGS: Final = ("clients", "threads", "ratio", "pipeline", "data_size", "key_pattern")
_TIMES: Final = {"Average Latency": "mean", "Min Latency": "min", "Max Latency": "max"}
_PERCENTILE: Final = re.compile(r"p(\d{1,3})(?:\.(\d{1,6}))?")
_RATE: Final = re.compile(r"(.{1,40})/sec(.{0,20})")


def _begins(source: Source) -> int | None:
    document = source.document
    if not isinstance(document, dict):
        return None
    named = any(_RESULT.fullmatch(str(key)) for key in document)
    return 1 if named or "run information" in document else None


def _read(found: Collector) -> None:
    document = found.source.document
    settings = document.get(_CONFIGURATION)
    settings = settings if isinstance(settings, dict) else {}
    found.said |= {key: str(settings[key]) for key in _SETTINGS if key in settings}
    results = {key: part for key, part in document.items() if _RESULT.fullmatch(key)}
    for name, result in results.items():
        _read_result(found, name, result, several=len(results) > 1)
    if not results:
        message = "it has no results: memtier_benchmark may have been interrupted"
        raise found.source.error(None, message)


def _read_result(found: Collector, name: str, result: Any, *, several: bool) -> None:
    if not isinstance(result, dict):
        raise found.source.error(None, f"{name} is no object")
    case = found.case({"result": name} if several else None)
    for kind, part in result.items():
        if not isinstance(part, dict):
            raise found.source.error(None, f"{name} has a part '{kind[:40]}' that is no object")
        if kind == _RUNTIME:
            _read_runtime(found, case, part)
        else:
            _read_part(found, case, kind, part)


def _read_runtime(found: Collector, case: int, part: Mapping[str, Any]) -> None:
    source = found.source
    if part.get("Time unit", "MILLISECONDS") != "MILLISECONDS":
        raise source.error(None, "its runtime isn't in milliseconds: unsupported version")
    total = json_number(source, "Total duration", part.get("Total duration"))
    found.add(None, RUNTIME, total, "ms", case=case)
    started = json_number(source, "Start time", part.get("Start time"))
    if isinstance(started, int) and 0 < started < 2**42:
        found.started_wall_ns = started * NS["ms"]
    if str(part.get("Interrupted", "false")).lower() == "true":
        found.notes.append("memtier_benchmark was interrupted.")


def _read_part(found: Collector, case: int, kind: str, part: Mapping[str, Any]) -> None:
    operation = None if kind == _TOTALS else kind
    add = partial(found.add, None, case=case, operation=operation)
    count = json_number(found.source, f"{kind} Count", part.get("Count"))
    add(OPERATIONS, count)
    for key, value in part.items():
        if key in ("Count", "Time-Serie", "Percentile Latencies"):
            continue
        figure = json_number(found.source, f"{kind} {key}", value)
        quantity, statistic, unit = _named(key)
        # Where nothing was done a time of 0 stands, which is none.
        if quantity and (count or unit != "ms"):
            add(quantity, figure, unit, statistic=statistic)
    if count:
        _read_percentiles(found, case, operation, part.get("Percentile Latencies"))
    _read_series(found, case, operation, part.get("Time-Serie"))


def _named(key: str) -> tuple[str, str, str]:
    """Quantity, statistic and unit of a figure; no quantity for the mean once more."""
    rate = _RATE.fullmatch(key)
    if key in _TIMES:
        return "service", _TIMES[key], "ms"
    if "Latency" in key:
        quantity = {"Latency": "", "Accumulated Latency": "service, summed"}.get(key)
        return key.replace("Latency", "service") if quantity is None else quantity, VALUE, "ms"
    if key == "Ops/sec":
        return THROUGHPUT, VALUE, "ops/s"
    if rate and rate[1] == "KB":
        return f"data{rate[2]}", VALUE, "KB/s"
    return (f"{rate[1].lower()} rate{rate[2]}", VALUE, "/s") if rate else (key.lower(), VALUE, "")


def _read_percentiles(found: Collector, case: int, operation: str | None, part: Any) -> None:
    for key, value in part.items() if isinstance(part, dict) else ():
        if isinstance(value, dict):
            encoded = value.get("Compressed Histogram")
            if isinstance(encoded, str):
                counts = decode_bounded(found.source, None, encoded, NS["us"])
                found.histogram(counts, "service", case=case, operation=operation)
            continue
        figure = json_number(found.source, key, value)
        if statistic := _statistic(key):
            of: dict[str, Any] = {"statistic": statistic, "case": case, "operation": operation}
            found.add(None, "service", figure, "ms", **of)


def _read_series(found: Collector, case: int, operation: str | None, part: Any) -> None:
    for key, row in part.items() if isinstance(part, dict) else ():
        if not (isinstance(row, dict) and key.isdecimal() and len(key) <= 9):
            raise found.source.error(None, f"the time series has no second '{key[:40]}'")
        values = {name: json_number(found.source, name, value) for name, value in row.items()}
        count = values.get("Count")
        times = {}
        for name, value in values.items():
            statistic = _TIMES.get(name) or _statistic(name)
            if statistic and value is not None and count:
                times[statistic] = value * NS["ms"]
        start_ns, end_ns = int(key) * NS["s"], (int(key) + 1) * NS["s"]
        done = None if count is None else int(count)
        by_time: dict[TimeName, dict[str, float]] = {"service": times} if times else {}
        found.interval(None, Interval(case, operation, start_ns, end_ns, done, by_time, values))


def _statistic(key: str) -> str:
    """`p99.90` as `p99.9`; empty for anything else."""
    match = _PERCENTILE.fullmatch(key)
    if match is None:
        return ""
    digits = (match[2] or "").rstrip("0")
    return f"p{match[1]}.{digits}" if digits else f"p{match[1]}"


MEMTIER: Final = Format(
    "memtier", "memtier_benchmark JSON", "memtier_benchmark", _begins, _read, is_json=True
)
