"""Tables of figures: CSV with commas, semicolons or tabs, and Markdown's pipe tables.

A column is known by its name. Names such as `p99_latency_us` or `throughput_ops_s` are figures with
their units. Columns of statistics (`mean`, `p95`) need a column `metric` that names their subject,
as in YugabyteDB's published tables. Every other column distinguishes cases. A file without a column
of figures isn't recognised.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from kvmark.imports.reading import NAMES, NS, Collector, Format
from kvmark.imports.source import NUMBER, Source, clock_s, number, shown
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT, VALUE

_STATISTIC: Final = r"(mean|avg|average|min|max|median|stddev|p\d{1,2}(?:\.\d{1,4})?)"
_TIME_FIRST: Final = re.compile(rf"{_STATISTIC}(?:_latency)?_(ns|us|ms|s)")
_TIME_LAST: Final = re.compile(rf"latency_{_STATISTIC}_(ns|us|ms|s)")
_ALONE: Final = re.compile(_STATISTIC)
_WORDS: Final = {"avg": "mean", "average": "mean"}
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
_LONGEST_HEADER: Final = 10_000
# redis-benchmark: a row per test, since 6.2 with times under a header.
_REDIS_HEADER: Final = re.compile(r'"test","rps"(?:,"\w+_latency_ms")*')
_REDIS_ROW: Final = re.compile(rf'"[^"]{{1,200}}","{NUMBER}"')


_Column: TypeAlias = tuple[str, str, str]
"""Quantity, statistic and unit of a column of figures."""
_Columns: TypeAlias = dict[str, _Column | None]
"""What each column holds; none for those that tell cases apart."""
_Row: TypeAlias = tuple[int, dict[str, str]]
"""A line and its cells by column."""
_Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Cells with the names of their columns."""


def _begins(source: Source) -> int | None:
    line, names = _header(source)
    return line if any(_columns(names).values()) else None


def _header(source: Source) -> tuple[int, list[str]]:
    """The first line that isn't empty, and its cells; none if they can't be read."""
    line, text = next((one for one in enumerate(source.lines, 1) if one[1].strip()), (1, ""))
    if text and len(text) <= _LONGEST_HEADER:
        with suppress(csv.Error):
            return line, _split(text, _delimiter(text))
    return line, []


def _delimiter(text: str) -> str:
    """What stands between the columns of a header; a pipe for Markdown."""
    return "|" if text.strip().startswith("|") else max(_DELIMITERS, key=text.count)


def _split(text: str, delimiter: str) -> list[str]:
    """The cells of a line.

    Raises:
        csv.Error: its quotes don't match.
    """
    if delimiter == "|":
        cells = text.strip().removesuffix("|").split("|")[1:]
    else:
        cells = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    return [cell.strip() for cell in cells]


def _columns(names: Sequence[str]) -> _Columns:
    if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
        return {}
    column = _statistic if _METRIC in names else _figure
    return {name: column(name.lower()) for name in names}


def _statistic(name: str) -> _Column | None:
    return ("", _WORDS.get(name, name), "") if _ALONE.fullmatch(name) else None


def _figure(name: str) -> _Column | None:
    if name in NAMES["table"]:
        quantity, unit = NAMES["table"][name]
        return quantity, VALUE, unit
    time = _TIME_FIRST.fullmatch(name) or _TIME_LAST.fullmatch(name)
    return ("service", _WORDS.get(time[1], time[1]), time[2]) if time else None


def _labels(row: _Row, names: Iterable[str]) -> _Labels:
    return tuple((name, row[1][name]) for name in names)


def _read(found: Collector) -> None:
    source = found.source
    source.never_overwritten()
    header, names = _header(source)
    delimiter = _delimiter(source.lines[header - 1])
    rows = list(_rows(source, enumerate(source.lines[header:], header + 1), names, delimiter))
    columns = _columns(names)
    told_apart = [name for name, column in columns.items() if column is None and name != _METRIC]
    # An operation that stands once in each case is what the case did.
    others = [name for name in told_apart if name != _OPERATION]
    inside = len({_labels(row, others) for row in rows}) < len(rows) and _METRIC not in names
    cases = _add_cases(found, rows, columns, others if inside else told_apart)
    systems = {value for key in cases for name, value in key if name in _SYSTEMS}
    if len(systems) == 1:
        found.system = systems.pop()


def _rows(
    source: Source, lines: Iterable[tuple[int, str]], names: Sequence[str], delimiter: str
) -> Iterator[_Row]:
    for line, text in lines:
        if not text.strip():
            continue
        try:
            cells = _split(text, delimiter)
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
        yield line, dict(zip(names, cells, strict=True))


def _add_cases(
    found: Collector, rows: Sequence[_Row], columns: _Columns, labels: Sequence[str]
) -> Iterable[_Labels]:
    """Adds the figures of all rows, a case for each combination of labels; returns those."""
    cases: dict[_Labels, list[_Row]] = {}
    for row in rows:
        cases.setdefault(_labels(row, labels), []).append(row)
    for key, same in cases.items():
        case = found.case(dict(key))
        for name, column in columns.items():
            if column:
                _add_column(found, case, same, name, column)
    return cases


def _add_column(
    found: Collector, case: int, rows: Sequence[_Row], name: str, column: _Column
) -> None:
    """A column of one case: a value per operation, or one that all of them repeat."""
    repeated = len({cells[name] for _, cells in rows}) == 1 and column[0] in _OF_CASES
    for line, cells in rows[:1] if repeated else rows:
        cell = cells[name]
        if not cell:
            continue
        quantity, statistic, unit = column
        operation = cells.get(_OPERATION) or None if len(rows) > 1 and not repeated else None
        if _METRIC in cells:
            operation, quantity, unit = _metric(found.source, line, cells[_METRIC])
        elif name.lower() == _CLOCK and ":" not in cell:
            quantity, unit = name, ""
        is_clock = quantity == RUNTIME and ":" in cell
        value = (clock_s if is_clock else number)(found.source, line, cell)
        found.add(line, quantity, value, unit, statistic=statistic, case=case, operation=operation)


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


TABLE: Final = Format("table", "a table of figures", None, _begins, _read)


def _begins_redis(source: Source) -> int | None:
    for line, text in enumerate(source.lines, 1):
        if _REDIS_HEADER.fullmatch(text) or _REDIS_ROW.fullmatch(text):
            return line
        if text.strip() and line not in source.noise:
            return None
    return None


def _read_redis(found: Collector) -> None:
    source = found.source
    source.never_overwritten()
    lines = [(line, text) for line, text in found.lines() if text.strip()]
    names = ["test", "rps"]
    if _REDIS_HEADER.fullmatch(lines[0][1]):
        names = _split(lines.pop(0)[1], ",")
    rows = list(_rows(source, lines, names, ","))
    tests: set[str] = set()
    for line, cells in rows:
        test = cells["test"]
        if test in tests:
            message = f"a second {shown(test)} stands here: import one result per file"
            raise source.error(line, message)
        tests.add(test)
    _add_cases(found, rows, _columns(names), ["test"])


REDIS_BENCHMARK: Final = Format(
    "redis-benchmark", "redis-benchmark CSV", "redis-benchmark", _begins_redis, _read_redis
)
