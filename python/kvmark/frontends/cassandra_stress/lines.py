"""What cassandra-stress prints of each interval, from the rows that the engine logs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from kvmark.records import files
from kvmark.records.files import Tail

TOTAL: Final = "TOTAL"
_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
_FAILED: Final = ("ok", "miss")
Row = Mapping[str, Any]


def adjusted_rate(rows: int, length_s: float, largest_s: float) -> float:
    """Rows a second, as if the interval had begun later by its largest service time.

    cassandra-stress's own (`TimingInterval.adjustedRowRate`): for one second, the rate divided by
    1 less that time. Negative when the time is longer than the interval, as it is there.
    """
    left_s = length_s - largest_s
    return rows / left_s if left_s else math.inf


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """cassandra-stress's relative standard error of a mean (`util/Uncertainty.java`)."""

    n: int = 0
    sum: float = 0.0
    sum_of_squares: float = 0.0

    def with_value(self, value: float) -> Uncertainty:
        """With one value more."""
        squares = self.sum_of_squares + value * value
        return Uncertainty(self.n + 1, self.sum + value, squares)

    @property
    def relative_stderr(self) -> float:
        """The population's standard deviation over the root of n, over the mean."""
        mean = self.sum / self.n if self.n else 0.0
        if not mean or not math.isfinite(mean):
            return math.nan
        variance = max(self.sum_of_squares / self.n - mean * mean, 0.0)
        return math.sqrt(variance) / math.sqrt(self.n) / mean


@dataclass(frozen=True, slots=True)
class Collections:
    """Collections of garbage on all nodes; NaN for what isn't known."""

    count: float = math.nan
    max_ms: float = math.nan
    sum_ms: float = math.nan
    deviation_ms: float = math.nan
    megabytes: float = math.nan


@dataclass(frozen=True, slots=True)
class Line:
    """One line: an operation, or all of them, in one interval. Times are milliseconds."""

    kind: str
    operations: int
    """Since the beginning."""
    op_rate: float
    partition_rate: float
    row_rate: float
    mean: float
    median: float
    p95: float
    p99: float
    p999: float
    max: float
    time_s: float
    """Since the beginning."""
    stderr: float
    errors: int
    collections: Collections


@dataclass(frozen=True, slots=True)
class LineMaker:
    """Makes lines of intervals, one after the other. What it has seen so far is its state."""

    sort: Literal["service", "response"]
    """The time that is shown."""
    partitions: Mapping[str, Callable[[int], int]]
    """Partitions of so many operations, by the operation's name; as many where it is left out."""
    checked: frozenset[str]
    """Operations for which a record that isn't there is an error."""
    start_ns: int | None = None
    uncertainty: Uncertainty = Uncertainty()
    operations: Mapping[str, int] = field(default_factory=dict)

    def take(
        self, rows: Sequence[Row], collections: Collections
    ) -> tuple[tuple[Line, ...], LineMaker]:
        """The lines of one interval's rows, and what makes those of the next."""
        first = rows[0]
        start_ns = first["start_ns"] if self.start_ns is None else self.start_ns
        whole = [row for row in rows if not row["part"]]
        total = next(row for row in whole if row["operation"] == TOTAL)
        named = [row for row in whole if row["operation"] != TOTAL]
        length_s = (first["end_ns"] - first["start_ns"]) / _NS_PER_S
        if length_s <= 0 or not total["count"]:
            return (), self
        done = sum(max(row["rows"], row["count"]) for row in named if row["outcome"] in _FAILED)
        largest_s = (total["service_ns_max"] or 0) / _NS_PER_S
        uncertainty = self.uncertainty.with_value(adjusted_rate(done, length_s, largest_s))
        counted = dict(self.operations)
        for row in named:
            counted[row["operation"]] = counted.get(row["operation"], 0) + row["count"]
        after = replace(self, start_ns=start_ns, uncertainty=uncertainty, operations=counted)
        lines = tuple(after._lines(named, total, length_s, collections))
        return lines, after

    def _lines(
        self, named: Sequence[Row], total: Row, length_s: float, collections: Collections
    ) -> Iterator[Line]:
        """A line for each operation where there are several, and one for all."""
        names = sorted({row["operation"] for row in named})
        if len(self.operations) > 1:
            for name in names:
                own = [row for row in named if row["operation"] == name]
                # Of several outcomes the usual one is shown: quantiles aren't averaged.
                usual = max(own, key=lambda row: row["count"])
                figures = {**usual, "count": sum(row["count"] for row in own)}
                yield self._line(name, figures, own, length_s, collections)
        yield self._line("total", total, named, length_s, collections)

    def _line(
        self, kind: str, figures: Row, rows: Sequence[Row], length_s: float, gc: Collections
    ) -> Line:
        def time_ms(name: str) -> float:
            value = figures[f"{self.sort}_ns_{name}"]
            return math.nan if value is None else value / _NS_PER_MS

        counted = self.operations
        operations = sum(counted.values()) if kind == "total" else counted[kind]
        partitions = self._partitions(rows)
        done = sum(max(row["rows"], row["count"]) for row in rows if row["outcome"] in _FAILED)
        return Line(
            kind=kind,
            operations=operations,
            op_rate=figures["count"] / length_s,
            partition_rate=partitions / length_s,
            row_rate=done / length_s,
            mean=time_ms("mean"),
            median=time_ms("p50"),
            p95=time_ms("p95"),
            p99=time_ms("p99"),
            p999=time_ms("p999"),
            max=time_ms("max"),
            time_s=(figures["end_ns"] - (self.start_ns or 0)) / _NS_PER_S,
            stderr=self.uncertainty.relative_stderr,
            errors=sum(row["count"] for row in rows if self._is_error(row)),
            collections=gc,
        )

    def _partitions(self, rows: Sequence[Row]) -> int:
        """Partitions of an interval's operations: the last ones of each kind so far."""
        counted = Counter[str]()
        for row in rows:
            counted[row["operation"]] += row["count"]

        def visited(name: str, count: int) -> int:
            last, until = self.operations[name], self.partitions.get(name, int)
            return until(last) - until(last - count)

        return sum(visited(name, count) for name, count in counted.items())

    def _is_error(self, row: Row) -> bool:
        if row["outcome"] == "miss":
            return row["operation"] in self.checked
        return bool(row["outcome"] != "ok")


class LogTail:
    """Reads what is appended to a run's logs: intervals of the measured phase, and collections."""

    def __init__(self, folder: Path) -> None:
        self._intervals = Tail(folder / files.INTERVAL_LOG)
        self._resources = Tail(folder / files.RESOURCE_LOG)
        self._collected: dict[str, tuple[float, float]] = {}

    def intervals(self) -> Iterator[list[Row]]:
        """The rows of each interval that was closed since it was last asked."""
        rows = [row for row in self._intervals.objects() if row["phase_name"] == "measure"]
        key = None
        together: list[Row] = []
        for row in rows:
            if together and (row["start_ns"], row["drain"]) != key:
                yield together
                together = []
            key = (row["start_ns"], row["drain"])
            together.append(row)
        if together:
            yield together

    def collections(self) -> Collections:
        """Collections since it was last asked; NaN where no node says."""
        before = dict(self._collected)
        for row in self._resources.objects():
            if row.get("gc_count") is not None and row.get("gc_time_s") is not None:
                self._collected[row["node"]] = (row["gc_count"], row["gc_time_s"])
                # What there was before the first sample isn't this run's.
                before.setdefault(row["node"], self._collected[row["node"]])
        known = [node for node in self._collected if node in before]
        if not known:
            return Collections()
        changes = [(self._collected[node], before[node]) for node in known]
        # A node that was started again counts from 0.
        count = sum(max(after[0] - old[0], 0) for after, old in changes)
        sum_ms = sum(max(after[1] - old[1], 0) for after, old in changes) * 1000
        if not count:
            return Collections(0, 0, 0, 0, math.nan)
        one = count == 1
        return Collections(count, sum_ms if one else math.nan, sum_ms, 0 if one else math.nan)
