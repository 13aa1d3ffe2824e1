"""cassandra-stress's log: a line per interval under a header, then the block of results.

Columns are found by the names in the header, which has changed: `total ops, adj row/s, op/s, …` in
2.1, `type, total ops, op/s, …` since then, with `errors` from 2.2 on. Names of the results changed
from `op rate : 1200 [WRITE:1200]` to `Op rate : 1,200 op/s [WRITE: 1,200 op/s]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvmark.imports.reading import NS, Collector, Format, Interval, Reading, first_line
from kvmark.imports.source import Source, clock_s, grouped, number, shown
from kvmark.records import TimeName
from kvmark.records.model import ERRORS, OPERATIONS, RUNTIME, THROUGHPUT

_TOOL: Final = "cassandra-stress"
_HEADER: Final = re.compile(r"\s*(?:id,\s*)?(?:type,?\s+)?total ops\s*,")
_RUNNING: Final = re.compile(
    r"Running (?:(\[[\w, -]{1,200}\]|\w{1,80}) )?with (\d{1,9}) threads? ?(.*)"
)
_FIXED: Final = re.compile(r"\bfixed=\d")
_VERSION: Final = re.compile(r"(?:cassandra-stress |Version: )v?(\d+\.\d+[\w.-]*)")
_RESULT: Final = re.compile(r"([A-Za-z][\w.()]*(?: [\w.()]+)*)\s*: (.*)")
_AMOUNT: Final = r"(-?\d+(?:,\d+)*(?:\.\d+)?|NaN|-?Infinity|∞)"
_WHOLE: Final = re.compile(rf"\s*{_AMOUNT}\s*([A-Za-z/]*)\s*(?:\[(.*)\])?\s*")
_SERIES: Final = re.compile(rf"([\w-]+)\s*:\s*{_AMOUNT}\s*([A-Za-z/]*)\s*")
_TIMES: Final = {
    "mean": "mean", "med": "median", ".95": "p95", ".99": "p99", ".999": "p99.9", "max": "max",
}  # fmt: skip
_RESULT_TIMES: Final = {
    "latency mean": "mean", "latency median": "median", "latency 95th percentile": "p95",
    "latency 99th percentile": "p99", "latency 99.9th percentile": "p99.9", "latency max": "max",
}  # fmt: skip
_RESULT_OTHERS: Final = {
    "op rate": (THROUGHPUT, "op/s"),
    "partition rate": ("partition rate", "pk/s"),
    "row rate": ("row rate", "row/s"),
    "total partitions": ("partitions", ""),
    "total errors": (ERRORS, ""),
    "total gc count": ("GC count", ""),
    "total gc mb": ("GC memory", "MB"),
    "total gc memory": ("GC memory", ""),
    "total gc time (s)": ("GC time", "s"),
    "total gc time": ("GC time", "s"),
    "avg gc time(ms)": ("GC time, mean", "ms"),
    "avg gc time": ("GC time, mean", "ms"),
    "stdev gc time(ms)": ("GC time, deviation", "ms"),
    "stddev gc time": ("GC time, deviation", "ms"),
}
_ROW_BEHIND: Final = re.compile(r"total,\s+\d+,\s+\d+,")
_FIGURE: Final = re.compile(r"\s*(?:-?\d[\d.]*|NaN)\s*")
_TOTAL: Final = "total"
_DURATION: Final = "total operation time"


@dataclass
class _State:
    """The reader's place in the log."""

    columns: list[str] = field(default_factory=list)
    case: int | None = None
    time: TimeName = "service"
    in_results: bool = False
    finished: bool = True
    #: Within the final table of all thread counts, whose rows are in the results already.
    in_summary: bool = False
    #: Seconds and operations at the end of each type's last interval.
    reached: dict[str, tuple[float, float]] = field(default_factory=dict)


def _is_header(text: str) -> bool:
    return _HEADER.match(text) is not None and "op/s" in text and "stderr" in text


def _read(source: Source) -> Reading:
    source.ends()
    collector, state = Collector(source, _TOOL), _State()
    labels: dict[str, str] = {}
    for line in sorted(source.noise):
        if _ROW_BEHIND.search(source.lines[line - 1]):
            raise source.error(line, "a logger's line contains a row: the log is mixed up")
    for line, text in collector.lines():
        running = _RUNNING.fullmatch(text.strip())
        if running:
            values = (*running.groups()[:2], running[3].strip().removeprefix("until "))
            named = zip(("command", "threads", "until"), values, strict=True)
            labels = {name: value for name, value in named if value}
        elif _is_header(text):
            _begin(collector, state, labels, line, text)
        elif state.in_results:
            _read_result(collector, state, line, text)
        elif text.strip() == "Results:":
            state.in_results = True
            _need_case(collector, state, line)
        elif _is_row(state, text):
            _read_row(collector, state, line, text)
        else:
            _read_around(collector, state, text)
    if state.case is None or not state.finished:
        raise source.error(len(source.lines), "the log ends before its results: it may be cut off")
    return collector.done()


def _is_row(state: _State, text: str) -> bool:
    """Whether a line under a header is a row, or a part of one."""
    if not state.columns:
        return False
    begin, cells = text.strip(), text.split(",")
    figures = sum(_FIGURE.fullmatch(cell) is not None for cell in cells)
    if 2 * figures >= len(cells):
        return True
    kinds = (_TOTAL, *state.reached)
    return begin != "" and any(kind.startswith(begin) or begin.startswith(kind) for kind in kinds)


def _begin(
    collector: Collector, state: _State, labels: Mapping[str, str], line: int, text: str
) -> None:
    """A header begins a case, except the header of the table of all thread counts."""
    if not state.finished:
        raise collector.source.error(line, "a second header precedes the results of the first")
    state.in_summary = text.strip().startswith("id,")
    state.columns = [
        name for part in text.split(",") for name in re.split(r"(?<=^type)\s+", part.strip())
    ]
    state.in_results = False
    state.reached = {}
    if not state.in_summary:
        state.case = collector.case(labels)
        state.finished = False


def _read_around(collector: Collector, state: _State, text: str) -> None:
    """Lines outside of tables: settings, and a logger's lines."""
    if _FIXED.search(text):
        # At a fixed rate, cassandra-stress measures from the intended start.
        state.time = "response"
    if text.strip() == "FAILURE":
        collector.notes.append("cassandra-stress ended with FAILURE.")
    version = _VERSION.search(text)
    if version and collector.version is None:
        collector.version = version[1]


def _read_row(collector: Collector, state: _State, line: int, text: str) -> None:
    if state.in_summary:
        return
    case = _need_case(collector, state, line)
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(state.columns):
        message = (
            f"{len(cells)} columns under a header of {len(state.columns)}: the line is damaged, or"
            " its numbers have decimal commas"
        )
        raise collector.source.error(line, message)
    row = dict(zip(state.columns, cells, strict=True))
    kind = row.pop("type", _TOTAL)
    values = {name: number(collector.source, line, cell) for name, cell in row.items()}
    done, at_s = values.get("total ops"), values.get("time")
    if done is None or at_s is None:
        raise collector.source.error(line, "the line has no total of operations or no time")
    previous_s, previous = state.reached.get(kind, (0.0, 0))
    if at_s < previous_s or done < previous:
        raise collector.source.error(
            line, "operations or seconds run backwards: lines are mixed up"
        )
    state.reached[kind] = (at_s, done)
    times = {
        statistic: value * NS["ms"]
        for column, statistic in _TIMES.items()
        if (value := values.get(column)) is not None
    }
    interval = Interval(
        case=case,
        operation=None if kind == _TOTAL else kind,
        start_ns=round(previous_s * NS["s"]),
        end_ns=round(at_s * NS["s"]),
        count=round(done - previous),
        times={state.time: times},
        written=values,
    )
    collector.interval(line, interval)


def _read_result(collector: Collector, state: _State, line: int, text: str) -> None:
    stripped = text.strip()
    if not stripped:
        return
    result = _RESULT.fullmatch(stripped)
    name = result[1].lower() if result else ""
    case = _need_case(collector, state, line)
    if result and name == _DURATION:
        collector.add(line, RUNTIME, clock_s(collector.source, line, result[2]), "s", case=case)
        done = state.reached.get(_TOTAL)
        collector.add(line, OPERATIONS, None if done is None else done[1], case=case)
        if collector.value(THROUGHPUT, case=case) is None:
            raise collector.source.error(line, "the results have no op rate: lines are missing")
        state.in_results, state.finished = False, True
        state.columns = []
    elif result and name in _RESULT_TIMES:
        for operation, value, unit in _values(collector, line, result[2]):
            collector.add(
                line, state.time, value, unit or "ms",
                statistic=_RESULT_TIMES[name], case=case, operation=operation,
            )  # fmt: skip
    elif result and name in _RESULT_OTHERS:
        quantity, usual = _RESULT_OTHERS[name]
        for operation, value, unit in _values(collector, line, result[2]):
            plain = {"seconds": "s"}.get(unit, unit) or usual
            collector.add(line, quantity, value, plain, case=case, operation=operation)
    else:
        message = f"{shown(stripped)} is among the results: the file is mixed or damaged"
        raise collector.source.error(line, message)


def _values(
    collector: Collector, line: int, text: str
) -> Iterator[tuple[str | None, int | float | None, str]]:
    """The value of all operations, then those of each in brackets, with their units."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        message = f"{shown(text)} is no value of a result: the line is damaged"
        raise collector.source.error(line, message)
    yield None, grouped(collector.source, line, whole[1]), whole[2]
    rest = whole[3] or ""
    at = 0
    for each in _SERIES.finditer(rest):
        if rest[at : each.start()].strip(" ,"):
            break
        yield each[1], grouped(collector.source, line, each[2]), each[3]
        at = each.end()
    if rest[at:].strip(" ,"):
        raise collector.source.error(line, f"{shown(rest)} can't be read: the line is damaged")


def _need_case(collector: Collector, state: _State, line: int) -> int:
    if state.case is None:
        raise collector.source.error(line, "results precede the header of their columns")
    return state.case


_begins = first_line(lambda text: _is_header(text) or _RUNNING.match(text))

FORMATS: Final = (Format("cassandra-stress", "a cassandra-stress log", _begins, _read),)
