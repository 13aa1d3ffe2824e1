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
    "latency mean": "mean",
    "latency median": "median",
    "latency 95th percentile": "p95",
    "latency 99th percentile": "p99",
    "latency 99.9th percentile": "p99.9",
    "latency max": "max",
}
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
    """Where in the log the reader is."""

    columns: list[str] = field(default_factory=list)
    case: int | None = None
    time: TimeName = "service"
    in_results: bool = False
    finished: bool = True
    #: The table of all thread counts that ends a log; its rows are in the results already.
    in_summary: bool = False
    #: Seconds and operations at the end of each type's last interval.
    reached: dict[str, tuple[float, float]] = field(default_factory=dict)


def _is_header(text: str) -> bool:
    return _HEADER.match(text) is not None and "op/s" in text and "stderr" in text


def _read(source: Source) -> Reading:
    source.ends()
    found, state = Collector(source, _TOOL), _State()
    labels: dict[str, str] = {}
    for line in sorted(source.noise):
        if _ROW_BEHIND.search(source.lines[line - 1]):
            raise source.error(line, "a row stands behind a line of a logger: the log is mixed up")
    for line, text in found.lines():
        running = _RUNNING.fullmatch(text.strip())
        if running:
            named = {
                "command": running[1],
                "threads": running[2],
                "until": running[3].strip().removeprefix("until "),
            }
            labels = {name: value for name, value in named.items() if value}
        elif _is_header(text):
            _begin(found, state, labels, line, text)
        elif state.in_results:
            _read_result(found, state, line, text)
        elif text.strip() == "Results:":
            state.in_results = True
            _need_case(found, state, line)
        elif _is_row(state, text):
            _read_row(found, state, line, text)
        else:
            _read_around(found, state, text)
    if state.case is None or not state.finished:
        raise source.error(len(source.lines), "the log ends before its results: it may be cut off")
    return found.done()


def _is_row(state: _State, text: str) -> bool:
    """Whether a line under a header is a row, or what is left of one."""
    if not state.columns:
        return False
    begin, cells = text.strip(), text.split(",")
    figures = sum(_FIGURE.fullmatch(cell) is not None for cell in cells)
    if 2 * figures >= len(cells):
        return True
    kinds = (_TOTAL, *state.reached)
    return begin != "" and any(kind.startswith(begin) or begin.startswith(kind) for kind in kinds)


def _begin(
    found: Collector, state: _State, labels: Mapping[str, str], line: int, text: str
) -> None:
    """A header begins a case, unless it is that of the summary over all thread counts."""
    if not state.finished:
        raise found.source.error(line, "a second header stands before the results of the first")
    state.in_summary = text.strip().startswith("id,")
    state.columns = [
        name for part in text.split(",") for name in re.split(r"(?<=^type)\s+", part.strip())
    ]
    state.in_results = False
    state.reached = {}
    if not state.in_summary:
        state.case = found.case(labels)
        state.finished = False


def _read_around(found: Collector, state: _State, text: str) -> None:
    """What stands outside of tables: settings, and the logger's lines."""
    if _FIXED.search(text):
        # At a fixed rate cassandra-stress counts from the intended start.
        state.time = "response"
    if text.strip() == "FAILURE":
        found.notes.append("cassandra-stress ended with FAILURE.")
    version = _VERSION.search(text)
    if version and found.version is None:
        found.version = version[1]


def _read_row(found: Collector, state: _State, line: int, text: str) -> None:
    if state.in_summary:
        return
    case = _need_case(found, state, line)
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(state.columns):
        message = (
            f"{len(cells)} columns stand under a header of {len(state.columns)}: the line is"
            " damaged, or its numbers have decimal commas"
        )
        raise found.source.error(line, message)
    row = dict(zip(state.columns, cells, strict=True))
    kind = row.pop("type", _TOTAL)
    values = {name: number(found.source, line, cell) for name, cell in row.items()}
    done, at_s = values.get("total ops"), values.get("time")
    if done is None or at_s is None:
        raise found.source.error(line, "the line has no total of operations or no time")
    previous_s, previous = state.reached.get(kind, (0.0, 0))
    if at_s < previous_s or done < previous:
        raise found.source.error(line, "operations or seconds run backwards: lines are mixed up")
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
    found.interval(line, interval)


def _read_result(found: Collector, state: _State, line: int, text: str) -> None:
    stripped = text.strip()
    if not stripped:
        return
    result = _RESULT.fullmatch(stripped)
    name = result[1].lower() if result else ""
    case = _need_case(found, state, line)
    if result and name == _DURATION:
        found.add(line, RUNTIME, clock_s(found.source, line, result[2]), "s", case=case)
        done = state.reached.get(_TOTAL)
        found.add(line, OPERATIONS, None if done is None else done[1], case=case)
        _check_whole(found, case, line)
        state.in_results, state.finished = False, True
        state.columns = []
    elif result and name in _RESULT_TIMES:
        for operation, value, unit in _values(found, line, result[2]):
            found.add(
                line, state.time, value, unit or "ms",
                statistic=_RESULT_TIMES[name], case=case, operation=operation,
            )  # fmt: skip
    elif result and name in _RESULT_OTHERS:
        quantity, usual = _RESULT_OTHERS[name]
        for operation, value, unit in _values(found, line, result[2]):
            plain = {"seconds": "s"}.get(unit, unit) or usual
            found.add(line, quantity, value, plain, case=case, operation=operation)
    else:
        message = f"{shown(stripped)} stands among the results: the file is mixed or damaged"
        raise found.source.error(line, message)


def _values(
    found: Collector, line: int, text: str
) -> Iterator[tuple[str | None, int | float | None, str]]:
    """The value of all operations, then those of each in brackets, with their units."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        message = f"{shown(text)} is no value of a result: the line is damaged"
        raise found.source.error(line, message)
    yield None, grouped(found.source, line, whole[1]), whole[2]
    rest = whole[3] or ""
    at = 0
    for each in _SERIES.finditer(rest):
        if rest[at : each.start()].strip(" ,"):
            break
        yield each[1], grouped(found.source, line, each[2]), each[3]
        at = each.end()
    if rest[at:].strip(" ,"):
        raise found.source.error(line, f"{shown(rest)} can't be read: the line is damaged")


def _check_whole(found: Collector, case: int, line: int) -> None:
    """The results must have the rate and the times that every version prints."""
    if found.value(THROUGHPUT, case=case) is None:
        raise found.source.error(line, "the results have no op rate: lines are missing")


def _need_case(found: Collector, state: _State, line: int) -> int:
    if state.case is None:
        raise found.source.error(line, "results stand before the header of their columns")
    return state.case


_begins = first_line(lambda text: _is_header(text) or _RUNNING.match(text))

CASSANDRA_STRESS: Final = Format("cassandra-stress", "a cassandra-stress log", _begins, _read)
