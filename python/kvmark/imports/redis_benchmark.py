"""redis-benchmark's CSV: a row per test, since 6.2 with times under a header."""

from __future__ import annotations

import csv
import re
from typing import Final

from kvmark.imports.numbers import NUMBER, number
from kvmark.imports.reading import Collector, Format, Reading
from kvmark.imports.source import Source, shown
from kvmark.records.imported import THROUGHPUT

__all__ = ["REDIS_BENCHMARK"]

_TOOL: Final = "redis-benchmark"
_HEADER: Final = re.compile(r'"test","rps"(?:,"\w+_latency_ms")*')
_OLD_ROW: Final = re.compile(rf'"[^"]{{1,200}}","{NUMBER}"')
_TIME: Final = re.compile(r"(avg|min|max|p\d+)_latency_ms")


def _begins(source: Source) -> int | None:
    for line, text in enumerate(source.lines, 1):
        if _HEADER.fullmatch(text) or _OLD_ROW.fullmatch(text):
            return line
        if text.strip() and line not in source.noise:
            return None
    return None


def _read(source: Source) -> Reading:
    source.ends()
    source.never_overwritten()
    found = Collector(source, _TOOL)
    lines = [(line, text) for line, text in found.lines() if text.strip()]
    columns = ["test", "rps"]
    if _HEADER.fullmatch(lines[0][1]):
        columns = next(csv.reader([lines[0][1]]))
        lines = lines[1:]
    seen: set[str] = set()
    for line, text in lines:
        cells = _cells(source, line, text, len(columns))
        if cells[0] in seen:
            message = f"a second {shown(cells[0])} stands here: import one result per file"
            raise source.error(line, message)
        seen.add(cells[0])
        _add(found, line, columns, cells)
    return found.done()


def _cells(source: Source, line: int, text: str, expected: int) -> list[str]:
    try:
        cells = next(csv.reader([text], strict=True))
    except (csv.Error, StopIteration) as problem:
        raise source.error(line, f"{shown(text)} isn't CSV: the file may be cut off") from problem
    if len(cells) != expected:
        message = (
            f"it has {len(cells)} columns and {expected} belong there: the file may be cut off"
        )
        raise source.error(line, message)
    return cells


def _add(found: Collector, line: int, columns: list[str], cells: list[str]) -> None:
    case = found.case({"test": cells[0]})
    for column, cell in zip(columns[1:], cells[1:], strict=True):
        value = number(found.source, line, cell)
        time = _TIME.fullmatch(column)
        if time:
            statistic = "mean" if time[1] == "avg" else time[1]
            found.add(line, "service", value, "ms", statistic=statistic, case=case)
        else:
            found.add(line, THROUGHPUT, value, "ops/s", case=case)


REDIS_BENCHMARK: Final = Format("redis-benchmark", "redis-benchmark CSV", _begins, _read)
