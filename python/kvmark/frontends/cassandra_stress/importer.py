"""cassandra-stress's log: a line per interval under a header, then the block of results.

Columns are found by the names in the header, which has changed: `total ops, adj row/s, op/s, …` in
2.1, `type, total ops, op/s, …` since then, with `errors` from 2.2 on. Names of the results changed
from `op rate : 1200 [WRITE:1200]` to `Op rate : 1,200 op/s [WRITE: 1,200 op/s]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

from kvmark.errors import ImportFileError
from kvmark.imports.reading import NS, Collector, Format, Interval, first_line
from kvmark.imports.source import clock_s, grouped, number, shown
from kvmark.records import TimeName
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT

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
_RESULTS: Final = tomllib.loads((files(__package__) / "results.toml").read_text("utf-8"))
"""The quantity, usual unit and statistic of a result."""
_UNITS: Final = {"seconds": "s"}
_ROW_BEHIND: Final = re.compile(r"total,\s+\d+,\s+\d+,")
_FIGURE: Final = re.compile(r"\s*(?:-?\d[\d.]*|NaN)\s*")
_TOTAL: Final = "total"
_DURATION: Final = "total operation time"


@dataclass
class _Log:
    """A log that is being read."""

    collector: Collector
    line: int = 0
    #: Of the next case.
    labels: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    case: int | None = None
    time: TimeName = "service"
    in_results: bool = False
    finished: bool = True
    #: Within the final table of all thread counts, whose rows are in the results already.
    in_summary: bool = False
    #: Seconds and operations at the end of each type's last interval.
    reached: dict[str, tuple[float, float]] = field(default_factory=dict)

    def error(self, message: str) -> ImportFileError:
        """An error about the line."""
        return self.collector.source.error(self.line, message)

    def read(self, text: str) -> None:
        """Reads a line."""
        if running := _RUNNING.fullmatch(text.strip()):
            values = (*running.groups()[:2], running[3].strip().removeprefix("until "))
            named = zip(("command", "threads", "until"), values, strict=True)
            self.labels = {name: value for name, value in named if value}
        elif _is_header(text):
            self.begin(text)
        elif self.in_results:
            self.read_result(text.strip())
        elif text.strip() == "Results:":
            self.in_results = True
            self.begun_case()
        elif self.is_row(text):
            self.read_row(text)
        else:
            self.read_around(text)

    def begun_case(self) -> int:
        """The case of the results."""
        if self.case is None:
            raise self.error("results precede the header of their columns")
        return self.case

    def is_row(self, text: str) -> bool:
        """Whether a line under a header is a row, or a part of one."""
        if not self.columns:
            return False
        begin, cells = text.strip(), text.split(",")
        figures = sum(_FIGURE.fullmatch(cell) is not None for cell in cells)
        if 2 * figures >= len(cells):
            return True
        kinds = (_TOTAL, *self.reached)
        return begin != "" and any(
            kind.startswith(begin) or begin.startswith(kind) for kind in kinds
        )

    def begin(self, text: str) -> None:
        """A header begins a case, except the header of the table of all thread counts."""
        if not self.finished:
            raise self.error("a second header precedes the results of the first")
        self.in_summary = text.strip().startswith("id,")
        self.columns = [
            name for part in text.split(",") for name in re.split(r"(?<=^type)\s+", part.strip())
        ]
        self.in_results = False
        self.reached = {}
        if not self.in_summary:
            self.case = self.collector.case(self.labels)
            self.finished = False

    def read_around(self, text: str) -> None:
        """Lines outside of tables: settings, and a logger's lines."""
        if _FIXED.search(text):
            # At a fixed rate, cassandra-stress measures from the intended start.
            self.time = "response"
        if text.strip() == "FAILURE":
            self.collector.notes.append("cassandra-stress ended with FAILURE.")
        version = _VERSION.search(text)
        if version and self.collector.version is None:
            self.collector.version = version[1]

    def read_row(self, text: str) -> None:
        """A row is an interval of a type of operations."""
        if self.in_summary:
            return
        case = self.begun_case()
        cells = text.split(",")
        if len(cells) != len(self.columns):
            raise self.error(
                f"{len(cells)} columns under a header of {len(self.columns)}: the line is damaged,"
                " or its numbers have decimal commas"
            )
        row = dict(zip(self.columns, map(str.strip, cells), strict=True))
        kind, source = row.pop("type", _TOTAL), self.collector.source
        values = {name: number(source, self.line, cell) for name, cell in row.items()}
        done, at_s = values.get("total ops"), values.get("time")
        if done is None or at_s is None:
            raise self.error("the line has no total of operations or no time")
        previous_s, previous = self.reached.get(kind, (0.0, 0))
        if at_s < previous_s or done < previous:
            raise self.error("operations or seconds run backwards: lines are mixed up")
        self.reached[kind] = (at_s, done)
        known = {_TIMES[name]: value for name, value in values.items() if name in _TIMES}
        times_ns = {name: ms * NS["ms"] for name, ms in known.items() if ms is not None}
        interval = Interval(
            case=case, operation=None if kind == _TOTAL else kind,
            start_ns=round(previous_s * NS["s"]), end_ns=round(at_s * NS["s"]),
            count=round(done - previous), times={self.time: times_ns}, written=values,
        )  # fmt: skip
        self.collector.interval(self.line, interval)

    def read_result(self, text: str) -> None:
        """A line of the results: a name, and the values of all operations and of each."""
        if not text:
            return
        case, collector = self.begun_case(), self.collector
        result = _RESULT.fullmatch(text)
        name = result[1].lower() if result else ""
        if result and name == _DURATION:
            seconds = clock_s(collector.source, self.line, result[2])
            collector.add(self.line, RUNTIME, seconds, "s", case=case)
            done = self.reached.get(_TOTAL)
            collector.add(self.line, OPERATIONS, None if done is None else done[1], case=case)
            if collector.value(THROUGHPUT, case=case) is None:
                raise self.error("the results have no op rate: lines are missing")
            self.in_results, self.finished, self.columns = False, True, []
        elif result and name in _RESULTS:
            quantity, usual, statistic = _RESULTS[name]
            for operation, value, unit in self.values(result[2]):
                collector.add(
                    self.line, quantity or self.time, value, _UNITS.get(unit, unit) or usual,
                    statistic=statistic, case=case, operation=operation,
                )  # fmt: skip
        else:
            raise self.error(f"{shown(text)} is among the results: the file is mixed or damaged")

    def values(self, text: str) -> Iterator[tuple[str | None, int | float | None, str]]:
        """The value of all operations, then those of each in brackets, with their units."""
        whole, source = _WHOLE.fullmatch(text), self.collector.source
        if whole is None:
            raise self.error(f"{shown(text)} is no value of a result: the line is damaged")
        yield None, grouped(source, self.line, whole[1]), whole[2]
        rest, at = whole[3] or "", 0
        for each in _SERIES.finditer(rest):
            if rest[at : each.start()].strip(" ,"):
                break
            yield each[1], grouped(source, self.line, each[2]), each[3]
            at = each.end()
        if rest[at:].strip(" ,"):
            raise self.error(f"{shown(rest)} can't be read: the line is damaged")


def _is_header(text: str) -> bool:
    return _HEADER.match(text) is not None and "op/s" in text and "stderr" in text


def _read(collector: Collector) -> None:
    source, log = collector.source, _Log(collector)
    for line in sorted(source.noise):
        if _ROW_BEHIND.search(source.lines[line - 1]):
            raise source.error(line, "a logger's line contains a row: the log is mixed up")
    for line, text in collector.lines():
        log.line = line
        log.read(text)
    if log.case is None or not log.finished:
        raise source.error(len(source.lines), "the log ends before its results: it may be cut off")


_begins = first_line(lambda text: _is_header(text) or _RUNNING.match(text))

FORMATS: Final = (
    Format("cassandra-stress", "a cassandra-stress log", "cassandra-stress", _begins, _read),
)
