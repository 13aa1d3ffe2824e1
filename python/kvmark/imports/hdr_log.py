"""Logs of HdrHistograms (V2), with or without tags, as the public tools write and read them.

The format doesn't say the unit of its values. They are nanoseconds by its authors' custom; YCSB
writes microseconds and begins its logs with its own line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from kvmark.imports import reading
from kvmark.imports.reading import NS, Collector, Format, Interval, first_line
from kvmark.imports.source import NUMBER, shown
from kvmark.records import TimeName
from kvmark.records.histograms import LAG_TAG
from kvmark.records.model import OPERATIONS
from kvmark.stats import Counts

_LINE: Final = re.compile(
    rf"(?:Tag=([^,]{{1,200}}),)?({NUMBER}),({NUMBER}),({NUMBER}),(HIST[A-Za-z0-9+/]*={{0,2}})"
)
_BEGIN: Final = re.compile(rf"(?:Tag=[^,]{{1,200}},)?{NUMBER},{NUMBER},{NUMBER},HIST")
_START: Final = re.compile(rf"#\[StartTime: ({NUMBER}) \(seconds since epoch\)")
_LOGGED: Final = re.compile(r"#\[Logged with (.{1,80}?)(?: (\d[\w.-]*))?\]")
_YCSB: Final = re.compile(r"#\[Logging for: (?:(Intended-))?(.{1,80})\]")
_LEGEND: Final = '"StartTimestamp"'
_ENDS: Final[dict[str, TimeName]] = {"-st": "service", "-rt": "response", "-wt": "wait"}
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
# From this value on, the start of an interval is in seconds since the epoch, else relative.
_EPOCH_S: Final = 1e8
_MERGED_AT_ONCE: Final = 64


@dataclass
class _State:
    """What the comments said."""

    start_s: float | None = None
    ns: int = 1
    operation: str | None = None
    time: TimeName = "service"


def _read(found: Collector) -> None:
    source, state = found.source, _State()
    source.never_overwritten()
    parts: dict[tuple[str | None, TimeName], list[Counts]] = {}
    found.case()
    for line, text in found.lines():
        row = _LINE.fullmatch(text)
        if row and (row[1] or "").endswith(LAG_TAG):
            # Of kvmark's own logs: no time of an operation.
            continue
        if row:
            key, counts = _read_row(found, state, line, row)
            series = parts.setdefault(key, [])
            series.append(counts)
            if len(series) == _MERGED_AT_ONCE:
                series[:] = [Counts.merge(series)]
        elif text.startswith("#"):
            _read_comment(found, state, text)
        elif text.strip() and not text.startswith(_LEGEND):
            message = f"{shown(text)} is no line of a histogram log: it may be cut off or damaged"
            raise source.error(line, message)
    if not parts:
        raise source.error(len(source.lines), "the log has no histogram")
    for (operation, time), series in parts.items():
        _add_figures(found, operation, time, Counts.merge(series))
    if state.start_s is not None and 0 < state.start_s < 2**33:
        found.started_wall_ns = round(state.start_s * 1e3) * NS["ms"]
    found.is_histogram_log = state.ns == 1


def _read_comment(found: Collector, state: _State, text: str) -> None:
    start, logged, ycsb = _START.match(text), _LOGGED.match(text), _YCSB.match(text)
    if start and float(start[1]) < 2**33:
        state.start_s = float(start[1])
    elif logged:
        found.tool, found.version = logged[1], logged[2]
    elif ycsb:
        found.tool, state.ns, state.operation = "YCSB", NS["us"], ycsb[2]
        state.time = "response" if ycsb[1] else "service"


def _read_row(
    found: Collector, state: _State, line: int, row: re.Match[str]
) -> tuple[tuple[str | None, TimeName], Counts]:
    operation, time = _series(row[1], state)
    begin_s, length_s, largest = float(row[2]), float(row[3]), float(row[4])
    if begin_s >= _EPOCH_S:
        begin_s -= state.start_s if state.start_s is not None else begin_s
    if not (0 <= begin_s < 1e9 and 0 <= length_s < 1e9 and math.isfinite(largest)):
        message = "its begin or its length can't be: lines are damaged or mixed up"
        raise found.source.error(line, message)
    counts = reading.decode_bounded(found.source, line, row[5], state.ns)
    start_ns, end_ns = (round(at_s * NS["s"]) for at_s in (begin_s, begin_s + length_s))
    times = {time: _statistics(counts)} if counts.n else {}
    written: dict[str, float | str | None] = {"Interval_Max": largest, "time": time}
    found.interval(line, Interval(0, operation, start_ns, end_ns, counts.n, times, written))
    return (operation, time), counts


def _series(tag: str | None, state: _State) -> tuple[str | None, TimeName]:
    """The operation and the time that a tag names."""
    if tag is None:
        return state.operation, state.time
    time = _ENDS.get(tag[-3:])
    return (tag, state.time) if time is None else (tag[:-3] or None, time)


def _statistics(counts: Counts) -> dict[str, float]:
    known = {name: counts.quantile(q) for name, q in _QUANTILES.items() if counts.shows(q)}
    ends = {"min": int(counts.low[0]), "mean": counts.mean(), "max": int(counts.high[-1])}
    return {name: value for name, value in {**ends, **known}.items() if value is not None}


def _add_figures(found: Collector, operation: str | None, time: TimeName, counts: Counts) -> None:
    """Figures that follow from a whole series."""
    if found.value(OPERATIONS, operation=operation) is None:
        found.add(None, OPERATIONS, counts.n, operation=operation)
    for statistic, value in _statistics(counts).items() if counts.n else ():
        found.add(None, time, value, "ns", statistic=statistic, operation=operation)
    found.histogram(counts, time, operation=operation)


_begins = first_line(lambda text: _BEGIN.match(text) or text.startswith("#[Histogram log format"))
HDR_LOG: Final = Format("hdr-log", "an HdrHistogram log", "HdrHistogram log", _begins, _read)
