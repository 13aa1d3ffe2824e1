"""Tables of figures: CSV with commas, semicolons or tabs, and Markdown's pipe tables.

A column is known by its name. Names such as `p99_latency_us` or `throughput_ops_s` are figures with
their units. Columns of statistics (`mean`, `p95`) need a column `metric` that names their subject,
as in YugabyteDB's published tables. Every other column distinguishes cases. A file without a column
of figures isn't recognised.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.imports.reading import NS, Collector, Format, Reading
from kvmark.imports.source import NUMBER, Source, clock_s, number, shown
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, VALUE

_STATISTIC: Final = r"(mean|avg|average|min|max|median|stddev|p\d{1,2}(?:\.\d{1,4})?)"
_TIME_FIRST: Final = re.compile(rf"{_STATISTIC}(?:_latency)?_(ns|us|ms|s)")
_TIME_LAST: Final = re.compile(rf"latency_{_STATISTIC}_(ns|us|ms|s)")
_ALONE: Final = re.compile(_STATISTIC)
_WORDS: Final = {"avg": "mean", "average": "mean"}
_NAMED: Final = {
    "runtime_ms": (RUNTIME, "ms"),
    "runtime_s": (RUNTIME, "s"),
    "throughput_ops_s": (THROUGHPUT, "ops/s"),
    "ops_per_s": (THROUGHPUT, "ops/s"),
    "rps": (THROUGHPUT, "ops/s"),
    "throughput_records_s": ("record rate", "records/s"),
    "total_ops": (OPERATIONS, ""),
    "operations": (OPERATIONS, ""),
}
# Seconds when written 00:05:00; a bare number has a unit that only its author knows.
_CLOCK: Final = "operation_time"
_METRIC: Final = "metric"
_OPERATION: Final = "operation"
_SYSTEMS: Final = ("store", "system")
# "Read throughput, ops/sec", "Cluster node CPU, user, %"
_METRIC_TEXT: Final = re.compile(r"(.{1,200}), ([^,]{1,40})")
_OF_OPERATION: Final = re.compile(r"(\w{1,40}) (throughput|latency)", re.IGNORECASE)
_UNITS: Final = {"ops/sec": "ops/s", "ms/op": "ms", "us/op": "us"}
_QUANTITIES: Final = {"throughput": THROUGHPUT, "latency": "service"}
# Columns that are repeated in each row of a case.
_OF_CASES: Final = frozenset({THROUGHPUT, RUNTIME, OPERATIONS, "record rate"})
_DELIMITERS: Final = ",;\t"
_RULE: Final = re.compile(r"\s*:?-{1,}:?\s*")
_MOST_COLUMNS: Final = 200
# redis-benchmark: a row per test, since 6.2 with times under a header.
_REDIS_HEADER: Final = re.compile(r'"test","rps"(?:,"\w+_latency_ms")*')
_REDIS_ROW: Final = re.compile(rf'"[^"]{{1,200}}","{NUMBER}"')


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of figures: its name and its content."""

    name: str
    quantity: str
    statistic: str
    unit: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A line and its cells by column."""

    line: int
    cells: dict[str, str]

    def labels(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The cells of some columns, with the columns' names."""
        return tuple((name, self.cells[name]) for name in names)


def _begins(source: Source) -> int | None:
    line, cells = _header(source)
    return line if any(_columns(cells).values()) else None


def _header(source: Source) -> tuple[int, list[str]]:
    """The first line that isn't empty, and its cells."""
    for line, text in enumerate(source.lines, 1):
        if text.strip():
            return line, _names(text)
    return 1, []


def _names(text: str) -> list[str]:
    if len(text) > 10_000:
        return []
    try:
        return [name.strip() for name in _split(text, _delimiter(text))]
    except csv.Error:
        return []


def _delimiter(text: str) -> str:
    """What stands between the columns of a header; a pipe for Markdown."""
    if text.strip().startswith("|"):
        return "|"
    return max(_DELIMITERS, key=text.count)


def _split(text: str, delimiter: str) -> list[str]:
    """The cells of a line.

    Raises:
        csv.Error: its quotes don't match.
    """
    if delimiter == "|":
        return [cell.strip() for cell in text.strip().removesuffix("|").split("|")[1:]]
    return next(csv.reader([text], delimiter=delimiter, strict=True), [])


def _columns(names: Sequence[str]) -> dict[str, _Column | None]:
    """What each column holds; none for those that tell cases apart."""
    if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
        return {}
    with_metric = _METRIC in names
    return {name: _column(name, with_metric=with_metric) for name in names}


def _column(name: str, *, with_metric: bool) -> _Column | None:
    lower = name.lower()
    if with_metric:
        statistic = _ALONE.fullmatch(lower)
        return _Column(name, "", _WORDS.get(lower, lower), "") if statistic else None
    if lower in _NAMED:
        quantity, unit = _NAMED[lower]
        return _Column(name, quantity, VALUE, unit)
    if lower == _CLOCK:
        return _Column(name, RUNTIME, VALUE, "s")
    time = _TIME_FIRST.fullmatch(lower) or _TIME_LAST.fullmatch(lower)
    return _Column(name, "service", _WORDS.get(time[1], time[1]), time[2]) if time else None


def _read(source: Source) -> Reading:
    source.ends()
    source.never_overwritten()
    found = Collector(source, None)
    header, names = _header(source)
    delimiter = _delimiter(source.lines[header - 1])
    rows = list(_rows(source, enumerate(source.lines[header:], header + 1), names, delimiter))
    columns = _columns(names)
    told_apart = [name for name, column in columns.items() if column is None and name != _METRIC]
    # An operation that stands once in each case is what the case did.
    others = [name for name in told_apart if name != _OPERATION]
    inside = len({row.labels(others) for row in rows}) < len(rows) and _METRIC not in names
    cases = _add_cases(found, rows, columns, others if inside else told_apart)
    systems = {value for key in cases for name, value in key if name in _SYSTEMS}
    if len(systems) == 1:
        found.system = systems.pop()
    return found.done()


def _rows(
    source: Source, lines: Iterable[tuple[int, str]], names: Sequence[str], delimiter: str
) -> Iterator[_Row]:
    for line, text in lines:
        if not text.strip():
            continue
        try:
            cells = [cell.strip() for cell in _split(text, delimiter)]
        except csv.Error as problem:
            message = f"{shown(text)} has quotes that don't match: the file may be cut off"
            raise source.error(line, message) from problem
        if delimiter == "|" and all(_RULE.fullmatch(cell) for cell in cells):
            continue
        if len(cells) != len(names):
            message = (
                f"it has {len(cells)} columns under a header of {len(names)}: the line is damaged,"
                " or its numbers have decimal commas"
            )
            raise source.error(line, message)
        yield _Row(line, dict(zip(names, cells, strict=True)))


def _add_cases(
    found: Collector, rows: Sequence[_Row], columns: Mapping[str, _Column | None], labels: list[str]
) -> list[tuple[tuple[str, str], ...]]:
    """Adds the figures of all rows, a case for each combination of labels; returns those."""
    cases: dict[tuple[tuple[str, str], ...], list[_Row]] = {}
    for row in rows:
        cases.setdefault(row.labels(labels), []).append(row)
    for key, same in cases.items():
        case = found.case(dict(key))
        for column in columns.values():
            if column:
                _add_column(found, case, same, column)
    return list(cases)


def _add_column(found: Collector, case: int, rows: Sequence[_Row], column: _Column) -> None:
    """A column of one case: a value per operation, or one that all of them repeat."""
    cells = {row.cells[column.name] for row in rows}
    repeated = len(cells) == 1 and column.quantity in _OF_CASES
    for row in rows[:1] if repeated else rows:
        cell = row.cells[column.name]
        if not cell:
            continue
        several = len(rows) > 1 and not repeated
        operation = row.cells.get(_OPERATION) or None if several else None
        quantity, unit = column.quantity, column.unit
        if _METRIC in row.cells:
            operation, quantity, unit = _metric(found.source, row.line, row.cells[_METRIC])
        elif column.name.lower() == _CLOCK and ":" not in cell:
            quantity, unit = column.name, ""
        if quantity == RUNTIME and ":" in cell:
            value: float | None = clock_s(found.source, row.line, cell)
        else:
            value = number(found.source, row.line, cell)
        found.add(
            row.line, quantity, value, unit,
            statistic=column.statistic, case=case, operation=operation,
        )  # fmt: skip


def _metric(source: Source, line: int, text: str) -> tuple[str | None, str, str]:
    """Operation, quantity and unit of `Read latency, ms/op`."""
    parts = _METRIC_TEXT.fullmatch(text)
    if parts is None:
        raise source.error(line, f"the metric {shown(text)} has no unit: name, unit belong there")
    unit = _UNITS.get(parts[2], parts[2])
    known = _OF_OPERATION.fullmatch(parts[1])
    if known and (unit in NS or unit == "ops/s"):
        return known[1].upper(), _QUANTITIES[known[2].lower()], unit
    return None, parts[1], unit


TABLE: Final = Format("table", "a table of figures", _begins, _read)


def _begins_redis(source: Source) -> int | None:
    for line, text in enumerate(source.lines, 1):
        if _REDIS_HEADER.fullmatch(text) or _REDIS_ROW.fullmatch(text):
            return line
        if text.strip() and line not in source.noise:
            return None
    return None


def _read_redis(source: Source) -> Reading:
    source.ends()
    source.never_overwritten()
    found = Collector(source, "redis-benchmark")
    lines = [(line, text) for line, text in found.lines() if text.strip()]
    names = ["test", "rps"]
    if _REDIS_HEADER.fullmatch(lines[0][1]):
        names = _split(lines.pop(0)[1], ",")
    rows = list(_rows(source, lines, names, ","))
    seen: set[str] = set()
    for row in rows:
        test = row.cells["test"]
        if test in seen:
            message = f"a second {shown(test)} stands here: import one result per file"
            raise source.error(row.line, message)
        seen.add(test)
    _add_cases(found, rows, _columns(names), ["test"])
    return found.done()


REDIS_BENCHMARK: Final = Format(
    "redis-benchmark", "redis-benchmark CSV", _begins_redis, _read_redis
)
