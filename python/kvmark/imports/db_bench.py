"""db_bench's output, RocksDB's and LevelDB's: a line per benchmark, then perhaps its histogram."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from kvmark.imports.reading import NS, Collector, Format, first_line
from kvmark.imports.source import NUMBER, Source, number
from kvmark.records.model import OPERATIONS, RUNTIME, THROUGHPUT
from kvmark.stats import Counts

_VERSION: Final = re.compile(r"(RocksDB|LevelDB):\s+version (\S{1,40})\s*")
_BENCHMARK: Final = re.compile(
    rf"(\S{{1,80}})\s*: +({NUMBER}) micros/op(?: ({NUMBER}) ops/sec)?"
    rf"(?: ({NUMBER}) seconds (\d{{1,18}}) operations)?;?(?: +({NUMBER}) MB/s)?(.*)"
)
_AVERAGE: Final = re.compile(
    rf"(\S{{1,80}}) +\[(AVG|MEDIAN) +(\d{{1,9}}) runs\] : ({NUMBER})(?: \(± ({NUMBER})\))? ops/sec"
    rf"(?:; +({NUMBER})(?: \(± ({NUMBER})\))? MB/sec)?\s*"
)
_FOUND: Final = re.compile(r"\((\d{1,18}) of (\d{1,18}) found\)")
_COUNT: Final = re.compile(r"Count: (\S{1,40}) +Average: (\S{1,40}) +StdDev: (\S{1,40})\s*")
_EXTREMES: Final = re.compile(r"Min: (\S{1,40}) +Median: (\S{1,40}) +Max: (\S{1,40})\s*")
_PERCENTILES: Final = re.compile(r"P(\d{1,3}(?:\.\d{1,6})?): (\S{1,40})")
_BUCKET: Final = re.compile(
    rf"[(\[]\s*({NUMBER}),\s*({NUMBER})\s*[\])]\s+(\d{{1,18}})\s+{NUMBER}%\s+{NUMBER}%\s*#*\s*"
)
_SETTING: Final = re.compile(r"(Keys|Values|Entries|Compression):\s+(.{1,200})")
# Nanoseconds and operations have room below it.
_MOST: Final = 2**62


@dataclass
class _State:
    """The benchmark whose histogram is being read."""

    case: int | None = None
    count: int | None = None
    line: int = 0
    buckets: list[tuple[int, int, int]] = field(default_factory=list)


def _read(found: Collector) -> None:
    source, state = found.source, _State()
    # What it doesn't know it leaves alone: its own warnings look like those of a machine.
    for line, text in enumerate(source.lines, 1):
        benchmark, average = _BENCHMARK.fullmatch(text), _AVERAGE.fullmatch(text)
        version, bucket = _VERSION.fullmatch(text), _BUCKET.fullmatch(text)
        if benchmark:
            _close(found, state)
            _begin(found, state, line, benchmark)
        elif average:
            _add_average(found, line, average)
        elif version:
            found.system, found.system_version = version[1], version[2]
            found.version = version[2]
        elif bucket and state.count is not None:
            low_ns, high_ns = (_bound_ns(source, line, bucket[part]) for part in (1, 2))
            state.buckets.append((low_ns, high_ns, int(bucket[3])))
            state.line = line
        elif " micros/op" in text:
            raise source.error(line, "the line of a benchmark isn't whole: the file is damaged")
        else:
            _read_histogram_head(found, state, line, text)
    _close(found, state)


def _begin(found: Collector, state: _State, line: int, match: re.Match[str]) -> None:
    case = state.case = found.case({"benchmark": match[1]})
    quantities = (
        ("time per operation", "us"), (THROUGHPUT, "ops/s"), (RUNTIME, "s"), (OPERATIONS, ""),
        ("data", "MB/s"),
    )  # fmt: skip
    for (quantity, unit), text in zip(quantities, match.groups()[1:6], strict=True):
        found.add(line, quantity, _number(found, line, text), unit, case=case)
    looked = _FOUND.search(match[7])
    if looked:
        found.add(line, "found", int(looked[1]), case=case)
        found.add(line, "looked for", int(looked[2]), case=case)


def _add_average(found: Collector, line: int, match: re.Match[str]) -> None:
    statistic = "mean" if match[2] == "AVG" else "median"
    case = found.case({"benchmark": match[1], "of runs": match[3], "statistic": statistic})
    for quantity, unit, place in ((THROUGHPUT, "ops/s", 4), ("data", "MB/s", 6)):
        value, error = (_number(found, line, match[at]) for at in (place, place + 1))
        found.add(line, quantity, value, unit, case=case, error=error, n=int(match[3]))


def _number(found: Collector, line: int, text: str | None) -> int | float | None:
    return None if text is None else number(found.source, line, text)


def _read_histogram_head(found: Collector, state: _State, line: int, text: str) -> None:
    setting = _SETTING.fullmatch(text)
    if setting:
        found.said.setdefault(setting[1], setting[2].strip())
    if state.case is None:
        return
    count, extremes = _COUNT.fullmatch(text), _EXTREMES.fullmatch(text)
    if count:
        figures = {"mean": count[2], "stddev": count[3]}
        total = number(found.source, line, count[1])
        if not isinstance(total, int) or total >= _MOST:
            raise found.source.error(line, "the count of a histogram isn't a number of operations")
        state.count, state.line = total, line
        found.add(line, "operations in the histogram", total, case=state.case)
    elif extremes:
        figures = {"min": extremes[1], "median": extremes[2], "max": extremes[3]}
    elif text.startswith("Percentiles:"):
        figures = {f"p{p}": value for p, value in _PERCENTILES.findall(text)}
    else:
        return
    if state.count is None:
        raise found.source.error(line, "a histogram's figures stand before its count")
    for statistic, value in figures.items():
        figure = number(found.source, line, value)
        found.add(line, "service", figure, "us", statistic=statistic, case=state.case)


def _close(found: Collector, state: _State) -> None:
    """Ends a benchmark: its histogram must be whole."""
    case, count, buckets = state.case, state.count, state.buckets
    state.case, state.count, state.buckets = None, None, []
    if case is None or count is None:
        return
    if sum(each[2] for each in buckets) != count:
        message = f"the histogram's buckets don't add up to {count}: the file may be cut off"
        raise found.source.error(state.line, message)
    ordered = all(a[1] <= b[0] for a, b in pairwise(buckets))
    if not ordered or any(low >= high for low, high, _ in buckets):
        raise found.source.error(state.line, "the histogram's buckets overlap: lines are mixed up")
    filled = [bucket for bucket in buckets if bucket[2]]
    low, high, counts = np.array(filled, dtype=np.int64).reshape(-1, 3).T
    # The lower end of a bucket belongs to the one before.
    found.histogram(Counts(low + 1, high, counts), "service", case=case)


def _bound_ns(source: Source, line: int, text: str) -> int:
    """A bucket's bound, which RocksDB lets grow to 2^64 microseconds and LevelDB to 10^200."""
    bound_us = float(text)
    if not math.isfinite(bound_us):
        raise source.error(line, "a bucket has no end: the file is damaged")
    return round(min(bound_us * NS["us"], _MOST))


_begins = first_line(
    lambda text: _BENCHMARK.fullmatch(text) or _AVERAGE.fullmatch(text) or _VERSION.fullmatch(text)
)
DB_BENCH: Final = Format("db_bench", "db_bench output", "db_bench", _begins, _read)
