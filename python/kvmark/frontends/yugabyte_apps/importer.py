"""The console log of YugabyteDB's sample applications: a line every five seconds.

The figures come from the last line, the intervals from all. With `--output_json_metrics`, a JSON
object over the whole run follows each line, and the last one counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from kvmark.imports.reading import NS, Collector, Format, Interval, first_line
from kvmark.imports.source import json_number, number
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT

_GROUP: Final = re.compile(
    r"\b(Read|Write): (\S{1,40}) ops/sec \((\S{1,40}) ms/op\), (\S{1,40}) total ops"
)
_UPTIME: Final = re.compile(r"Uptime: (\d{1,15}) ms")
_KEYS: Final = re.compile(r"\b(maxWrittenKey|maxGeneratedKey): (-?\d{1,18})")
_JSON: Final = re.compile(r"<json>(.*)</json>")
_LABELS: Final = (
    re.compile(r"(?:App: |--workload[ =])(?P<workload>\w{1,80})"),
    re.compile(
        r"Num reader threads: (?P<readers>\d{1,9}), num writer threads: (?P<writers>\d{1,9})"
    ),
)
_PERIOD_MS: Final = 5000


@dataclass
class _State:
    """The totals after the last line."""

    labels: dict[str, str] = field(default_factory=dict)
    at_ms: int = 0
    has_uptime: bool = False
    #: Operations since the begin, by kind.
    totals: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    #: The last JSON object.
    document: str = ""


def _read(collector: Collector) -> None:
    source, state = collector.source, _State()
    for line, text in enumerate(source.lines, 1):
        if _GROUP.search(text):
            _read_line(collector, state, line, text)
            continue
        if whole := _JSON.search(text):
            state.document = whole[1]
        elif "ops/sec" in text:
            raise source.error(line, "the line is incomplete: it may be cut off or damaged")
        for label in filter(None, (pattern.search(text) for pattern in _LABELS)):
            state.labels |= label.groupdict()
    collector.case(state.labels)
    for operation, total in state.totals.items():
        collector.add(len(source.lines), OPERATIONS, total, operation=operation)
    if state.has_uptime:
        collector.add(len(source.lines), RUNTIME, state.at_ms, "ms")
    for name, key in state.keys.items():
        collector.add(len(source.lines), name, key)
    if state.document:
        _read_totals(collector, len(source.lines), state.document)


def _read_line(collector: Collector, state: _State, line: int, text: str) -> None:
    """The intervals of a line."""
    source, first = collector.source, not state.totals
    uptime = _UPTIME.search(text)
    now_ms = int(uptime[1]) if uptime else state.at_ms + _PERIOD_MS
    if now_ms <= state.at_ms:
        raise source.error(line, "its uptime runs backwards: lines are mixed up")
    # The first line may come late, and still covers only the last five seconds.
    start_ms = max(0, now_ms - _PERIOD_MS) if first else state.at_ms
    for name, *texts in _GROUP.findall(text):
        rate, mean_ms, total = (number(source, line, each) for each in texts)
        operation = name.upper()
        if not isinstance(total, int):
            raise source.error(line, "a total of operations isn't a whole number")
        if total < state.totals.get(operation, 0):
            raise source.error(line, f"the total of {name} falls: lines are mixed up")
        count = None if first else total - state.totals.get(operation, 0)
        known = mean_ms is not None and rate
        interval = Interval(
            case=0, operation=operation, start_ns=start_ms * NS["ms"], end_ns=now_ms * NS["ms"],
            count=count, times={"service": {"mean": (mean_ms or 0) * NS["ms"]}} if known else {},
            written={"ops/sec": rate, "ms/op": mean_ms, "total ops": total},
        )  # fmt: skip
        collector.interval(line, interval)
        state.totals[operation] = total
    state.at_ms = now_ms
    state.has_uptime = uptime is not None
    state.keys |= {name: int(key) for name, key in _KEYS.findall(text)}


def _read_totals(collector: Collector, line: int, document: str) -> None:
    source = collector.source
    try:
        groups = json.loads(document)
    except (RecursionError, ValueError) as problem:
        raise source.error(line, "the last <json> line can't be read") from problem
    units = (("latency", "service", "ms"), ("throughput", THROUGHPUT, "ops/s"))
    for name, parts in groups.items() if isinstance(groups, dict) else ():
        operation = name.upper()
        for part, quantity, unit in units if isinstance(parts, dict) else ():
            values = parts.get(part)
            if not isinstance(values, dict) or not values.get("sampleSize"):
                continue
            n = json_number(source, "sampleSize", values["sampleSize"])
            for statistic in ("mean", "min", "max", "p99"):
                value = json_number(source, f"{operation} {statistic}", values.get(statistic))
                collector.add(
                    line, quantity, value, unit,
                    statistic=statistic, operation=operation, n=n,
                )  # fmt: skip


_begins = first_line(lambda text: "ops/sec (" in text and _GROUP.search(text))

FORMATS: Final = (
    Format("yb-console", "a yb-sample-apps console log", "yb-sample-apps", _begins, _read),
)
