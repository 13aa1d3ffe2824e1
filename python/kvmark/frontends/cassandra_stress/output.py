"""cassandra-stress's output: a line per interval, the Results block, and the table of a ramp."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl

from kvmark.analysis.summary.sums import counter_delta
from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.options import StressSpec
from kvmark.plan.model import Plan
from kvmark.records import files
from kvmark.records.files import Tail, TimeName
from kvmark.records.model import TIMES, TotalRecord
from kvmark.records.run import Run
from kvmark.stats import Counts

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers

_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
_QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)
_TIME_HEADS: Final = ("mean", "med", ".95", ".99", ".999", "max")
_PREDEFINED: Final = ("write", "read", "mixed", "counter_write", "counter_read")
_COLUMNS: Final = {
    "total ops": (10, 0), "op/s": (8, 0), "pk/s": (8, 0), "row/s": (8, 0),
    **dict.fromkeys(_TIME_HEADS, (8, 1)), "time": (7, 1), "stderr": (9, 5), "errors": (7, 0),
    "gc: #": (7, 0), **dict.fromkeys(("max ms", "sum ms", "sdv ms", "mb"), (8, 0)),
}  # fmt: skip
"""Width and digits of the columns, in the order of the fields of `Line` and `Collections`."""
HEAD: Final = "type      " + ",".join(f"{name:>{width}}" for name, (width, _) in _COLUMNS.items())
"""The header of the lines."""
_PERCENTILES: Final = (
    "mean", "median", "95th percentile", "99th percentile", "99.9th percentile", "max",
)  # fmt: skip
_UNKNOWN: Final = "not known (only nodes of kvmark up report it)"
_NOT_EXPORTED: Final = "not known (the nodes' exporter doesn't report it)"

Row = Mapping[str, Any]


def adjusted_rate(rows: int, length_s: float, largest_s: float) -> float:
    """Rows per second, as if the interval had begun later by its largest service time.

    cassandra-stress's own (`TimingInterval.adjustedRowRate`). Negative if that time is longer than
    the interval, as there.
    """
    left_s = length_s - largest_s
    return rows / left_s if left_s else math.inf


def relative_stderr(rates: Sequence[float]) -> float:
    """The population's standard deviation over √n, over the mean (`util/Uncertainty.java`)."""
    mean = float(np.mean(rates)) if rates else 0.0
    if not mean or not math.isfinite(mean):
        return math.nan
    return float(np.std(rates)) / math.sqrt(len(rates)) / mean


@dataclass(frozen=True, slots=True)
class Collections:
    """Garbage collections on all nodes; NaN if unknown."""

    count: float = math.nan
    max_ms: float = math.nan
    sum_ms: float = math.nan
    deviation_ms: float = math.nan
    megabytes: float = math.nan


@dataclass(frozen=True, slots=True)
class Line:
    """An operation, or all of them, in an interval. Times are milliseconds."""

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
class CountingRules:
    """How operations are counted and timed."""

    time: Literal["service", "response"]
    partitions: Mapping[str, Callable[[int], int]]
    """Partitions of a number of operations, by the operation's name, if it isn't one each."""
    checked: frozenset[str]
    """Operations for which a missing record is an error."""

    @classmethod
    def of(cls, spec: StressSpec, plan: Plan) -> CountingRules:
        """The rules of a command line."""
        reads = spec.command != "user" and spec.checks_reads
        return cls(
            "service" if spec.rate is None else "response",
            {one.name: one.rows.visited for one in plan.statements if one.rows is not None},
            frozenset(one.name for one in plan.statements if reads and one.name.endswith("READ")),
        )

    def is_error(self, operation: str, outcome: str) -> bool:
        """Whether an outcome counts as an error."""
        return operation in self.checked if outcome == "miss" else outcome != "ok"


class LineMaker:
    """Makes the lines of intervals, one after the other."""

    def __init__(self, rules: CountingRules) -> None:
        self._rules = rules
        self._start_ns: int | None = None
        self._rates: list[float] = []
        #: Operations since the beginning.
        self._operations = Counter[str]()

    def lines(self, rows: Sequence[Row], collections: Collections) -> list[Line]:
        """A line for each operation if there are several, and one for all."""
        first = rows[0]
        if self._start_ns is None:
            self._start_ns = first["start_ns"]
        whole = [row for row in rows if not row["part"]]
        total = next(row for row in whole if row["operation"] == "TOTAL")
        named = [row for row in whole if row["operation"] != "TOTAL"]
        length_s = (first["end_ns"] - first["start_ns"]) / _NS_PER_S
        if length_s <= 0 or not total["count"]:
            return []
        largest_s = (total["service_ns_max"] or 0) / _NS_PER_S
        self._rates.append(adjusted_rate(_row_count(named), length_s, largest_s))
        for row in named:
            self._operations[row["operation"]] += row["count"]
        lines = []
        names = sorted({row["operation"] for row in named}) if len(self._operations) > 1 else ()
        for name in names:
            own = [row for row in named if row["operation"] == name]
            # Quantiles aren't averaged: the times are those of the most frequent outcome.
            usual = max(own, key=lambda row: row["count"])
            figures = {**usual, "count": sum(row["count"] for row in own)}
            lines.append(self._line(name, figures, own, length_s, collections))
        return [*lines, self._line("total", total, named, length_s, collections)]

    def _line(
        self, kind: str, figures: Row, rows: Sequence[Row], length_s: float, gc: Collections
    ) -> Line:
        counted, is_error = self._operations, self._rules.is_error
        times = {}
        for name in ("mean", "p50", "p95", "p99", "p999", "max"):
            time_ns = figures[f"{self._rules.time}_ns_{name}"]
            own = "median" if name == "p50" else name
            times[own] = math.nan if time_ns is None else time_ns / _NS_PER_MS
        return Line(
            kind=kind,
            operations=counted.total() if kind == "total" else counted[kind],
            op_rate=figures["count"] / length_s,
            partition_rate=self._partitions(rows) / length_s,
            row_rate=_row_count(rows) / length_s,
            **times,
            time_s=(figures["end_ns"] - (self._start_ns or 0)) / _NS_PER_S,
            stderr=relative_stderr(self._rates),
            errors=sum(row["count"] for row in rows if is_error(row["operation"], row["outcome"])),
            collections=gc,
        )

    def _partitions(self, rows: Sequence[Row]) -> int:
        """Partitions of an interval's operations: the last ones of each kind so far."""
        counts = Counter[str]()
        for row in rows:
            counts[row["operation"]] += row["count"]
        partitions = 0
        for name, count in counts.items():
            visited, last = self._rules.partitions.get(name, int), self._operations[name]
            partitions += visited(last) - visited(last - count)
        return partitions


def _row_count(rows: Sequence[Row]) -> int:
    return sum(max(row["rows"], row["count"]) for row in rows if row["outcome"] in ("ok", "miss"))


class CollectionCounter:
    """Counts garbage collections by the nodes' counters."""

    def __init__(self) -> None:
        #: Number and seconds, by node.
        self._collected: dict[str, tuple[float, float]] = {}

    def count(self, samples: Iterable[Row]) -> Collections:
        """Collections of the next samples; NaN if no node reports them."""
        before = dict(self._collected)
        for row in samples:
            if row.get("gc_count") is not None and row.get("gc_time_s") is not None:
                self._collected[row["node"]] = (row["gc_count"], row["gc_time_s"])
                # Collections before the first sample don't belong to this run.
                before.setdefault(row["node"], self._collected[row["node"]])
        if not before:
            return Collections()
        # The counters of a restarted node begin at 0.
        ends = [self._collected[node] for node in before]
        gains = np.maximum(np.array(ends) - np.array([*before.values()]), 0).sum(axis=0)
        count, sum_ms = float(gains[0]), float(gains[1]) * 1000
        if not count:
            return Collections(0, 0, 0, 0)
        # The longest one is only known if there is a single one.
        longest_ms, deviation_ms = (sum_ms, 0) if count == 1 else (math.nan, math.nan)
        return Collections(count, longest_ms, sum_ms, deviation_ms)


class LinePrinter:
    """Prints the lines of the measured phase while a run's logs are written."""

    def __init__(self, rules: CountingRules, out: Callable[[str], None]) -> None:
        #: The last line of all operations.
        self.last: Line | None = None
        self._maker, self._counter, self._out = LineMaker(rules), CollectionCounter(), out
        self._logs: tuple[Tail, ...] = ()

    def catch_up(self, folder: Path) -> None:
        """Prints the lines of the intervals since the last call."""
        names = (files.INTERVAL_LOG, files.RESOURCE_LOG)
        self._logs = self._logs or tuple(Tail(folder / name) for name in names)
        intervals, resources = self._logs
        measured = [row for row in intervals.objects() if row["phase_name"] == "measure"]
        if not measured and self.last is None:
            # Collections during the warm-up belong to no line.
            self._counter.count(resources.objects())
        for _, rows in groupby(measured, itemgetter("start_ns", "drain")):
            collections = self._counter.count(resources.objects())
            for line in self._maker.lines(list(rows), collections):
                self._out(line_text(line))
                self.last = line


@dataclass(frozen=True, slots=True)
class Figures:
    """An operation, or all of them. Times are milliseconds, None without any record."""

    name: str
    operations: int
    op_rate: float
    partition_rate: float
    row_rate: float
    times: Mapping[TimeName, tuple[float, ...] | None]
    """Mean, median, 95th, 99th and 99.9th percentile and maximum."""
    partitions: int
    errors: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Garbage collections on the nodes during the measurement."""

    count: float
    time_s: float


@dataclass(frozen=True, slots=True)
class StressResults:
    """The Results block."""

    total: Figures
    operations: tuple[Figures, ...]
    shown: TimeName
    """The time in the block."""
    time_s: float
    garbage: Garbage | None
    """None if no node reports them."""


@dataclass(frozen=True, slots=True)
class StressRun:
    """A level of a thread ramp, or the only run."""

    run: str
    results: StressResults


def stress_results(run: Run, rules: CountingRules) -> StressResults:
    """The totals of the measured phase, its drain included.

    Raises:
        RecordsError: a histogram can't be decoded.
    """
    phases = run.counted
    totals = [total for phase in phases for total in run.totals(phase.index) if not total.part]
    window_ns = sum(max(one.end_ns, one.drained_ns or 0) - one.start_ns for one in phases)
    time_s = window_ns / _NS_PER_S

    def figures(name: str, chosen: Sequence[TotalRecord]) -> Figures:
        counts = Counter[str]()
        for one in chosen:
            counts[one.operation] += one.count
        partitions = sum(rules.partitions.get(one, int)(n) for one, n in counts.items())
        rows = sum(max(one.rows, one.count) for one in chosen if one.outcome in ("ok", "miss"))
        errors = sum(one.count for one in chosen if rules.is_error(one.operation, one.outcome))
        per_s = 1 / time_s if time_s else 0.0
        return Figures(
            name=name,
            operations=counts.total(),
            op_rate=counts.total() * per_s,
            partition_rate=partitions * per_s,
            row_rate=rows * per_s,
            times={time: _times(run, chosen, time) for time in TIMES},
            partitions=partitions,
            errors=errors,
        )

    return StressResults(
        total=figures("total", totals),
        operations=tuple(
            figures(name, [one for one in totals if one.operation == name])
            for name in sorted({total.operation for total in totals})
        ),
        shown=rules.time,
        time_s=time_s,
        garbage=_garbage(run),
    )


def _times(run: Run, totals: Sequence[TotalRecord], time: TimeName) -> tuple[float, ...] | None:
    """Quantiles are merged; mean and maximum are exact."""
    count = sum(one.count for one in totals)
    if not count:
        return None
    mean_ns = sum(one.count * getattr(one, time).mean for one in totals) / count
    max_ns = max(getattr(one, time).max for one in totals)
    merged = Counts.merge(run.times(one, time) for one in totals)
    # A histogram's quantile is the end of a range, which may exceed the largest value.
    quantiles = (min(merged.quantile(q) or 0, max_ns) for q in _QUANTILES)
    return tuple(value / _NS_PER_MS for value in (mean_ns, *quantiles, max_ns))


def _garbage(run: Run) -> Garbage | None:
    samples = run.resources
    if "gc_count" not in samples.columns or not run.counted:
        return None
    origin_ns = run.manifest.engine.started_wall_ns
    # There is a sample per second: those next to the window belong to it.
    start_ns = origin_ns + run.counted[0].start_ns - 10**9
    end_ns = origin_ns + run.counted[-1].end_ns + 10**9
    inside = samples.filter(
        pl.col("gc_count").is_not_null() & pl.col("at_wall_ns").is_between(start_ns, end_ns)
    )
    if inside.is_empty():
        return None
    by_node = inside.sort("at_wall_ns").group_by("node")
    gains = by_node.agg(count=counter_delta("gc_count"), time_s=counter_delta("gc_time_s"))
    return Garbage(float(gains["count"].sum()), float(gains["time_s"].sum()))


def line_text(line: Line) -> str:
    """A line."""
    kind, *values, collections = astuple(line)
    cells = zip((*values, *collections), _COLUMNS.values(), strict=True)
    return f"{kind + ',':<10}" + ",".join(_padded(value, *column) for value, column in cells)


def _padded(value: float, width: int, digits: int) -> str:
    """A number in Java's format."""
    return f"{value:>{width}.{digits}f}".replace("nan", "NaN")


def results_text(results: StressResults) -> str:
    """The Results block."""

    def line(name: str, total: str, texts: Sequence[str]) -> str:
        named = zip(results.operations, texts, strict=True)
        each = ", ".join(f"{one.name}: {text}" for one, text in named)
        return f"{name:<26}: {total} [{each}]"

    def time_ms(one: Figures, place: int) -> float:
        times = one.times[results.shown]
        return times[place] if times else math.nan

    lines = ["", "", "Results:"]
    for name, unit in (("Op", "op/s"), ("Partition", "pk/s"), ("Row", "row/s")):
        total, *rates = (
            getattr(one, f"{name.lower()}_rate") for one in (results.total, *results.operations)
        )
        each = [f"{rate:,.0f} {unit}" for rate in rates]
        lines.append(line(f"{name} rate", f"{total:>8,.0f} {unit:<5}", each))
    for place, name in enumerate(_PERCENTILES):
        each = [f"{_padded(time_ms(one, place), 1, 1)} ms" for one in results.operations]
        total_ms = _padded(time_ms(results.total, place), 6, 1)
        lines.append(line(f"Latency {name}", f"{total_ms} ms", each))
    for name in ("partitions", "errors"):
        each = [f"{getattr(one, name):,}" for one in results.operations]
        lines.append(line(f"Total {name}", f"{getattr(results.total, name):>10,}", each))
    names = ("Total GC count", "Total GC memory", "Total GC time", "Avg GC time", "StdDev GC time")
    texts: Sequence[str] = [_UNKNOWN] * len(names)
    if (garbage := results.garbage) is not None:
        mean_ms = garbage.time_s * 1000 / garbage.count if garbage.count else 0.0
        time, unknown = f"{garbage.time_s:>6,.1f} seconds", _NOT_EXPORTED
        texts = (f"{garbage.count:,.0f}", unknown, time, f"{mean_ms:>6,.1f} ms", unknown)
    lines += [f"{name:<26}: {text}" for name, text in zip(names, texts, strict=True)]
    minutes, seconds = divmod(int(results.time_s), 60)
    hours, minutes = divmod(minutes, 60)
    duration = f"{hours:02}:{minutes:02}:{seconds:02}"
    return "\n".join([*lines, f"{'Total operation time':<26}: {duration}", ""])


def times_table(results: StressResults) -> str:
    """Response, service and wait time, in milliseconds."""
    table = f"{'time (ms)':<12}" + "".join(f"{head:>9}" for head in _TIME_HEADS) + "\n"
    for time in TIMES:
        cells = results.total.times[time] or (math.nan,) * len(_TIME_HEADS)
        table += f"{time:<12}" + "".join(_padded(cell, 9, 1) for cell in cells) + "\n"
    return table


def ramp_table(rows: Sequence[tuple[str, Line]]) -> str:
    """A line for each level of a thread ramp, after its name."""
    width = max((len(name) for name, _ in rows), default=2)
    lines = (("id", HEAD), *((name, line_text(line)) for name, line in rows))
    return "".join(f"{name:>{width}}, {text}\n" for name, text in lines)


def documents() -> Mapping[str, Answers]:
    """The JSON documents of the command, by their kinds."""
    from kvmark.cli.documents import Answers

    purpose = "cassandra-stress's results of each run."
    return {"stress": Answers({"runs": tuple[StressRun, ...]}, ("stress",), purpose)}


def printed_by_tool(run: Run) -> str | None:
    """A stored run of a predefined command as printed: header, lines and Results block.

    None for runs of other commands of kvmark.

    Raises:
        SpecError: the run has another command.
        RecordsError: it can't be read.
    """
    spec = run.manifest.spec.get("stress")
    if spec is None:
        return None
    if spec["command"] not in _PREDEFINED:
        raise SpecError(f"run {run.id} is none of kvmark stress {', '.join(_PREDEFINED)}")
    names = {total.operation for total in run.manifest.engine.totals}
    reads = frozenset(name for name in names if name.endswith("READ"))
    rules = CountingRules("service" if spec["rate"] is None else "response", {}, reads)
    maker, counter, lines = LineMaker(rules), CollectionCounter(), [HEAD]
    samples = sorted(run.resources.iter_rows(named=True), key=itemgetter("at_wall_ns"))

    def collections(until_ns: int) -> Collections:
        until_wall_ns = run.manifest.engine.started_wall_ns + until_ns
        count = bisect_right(samples, until_wall_ns, key=itemgetter("at_wall_ns"))
        taken, samples[:count] = samples[:count], []
        return counter.count(taken)

    measured = run.intervals.filter(pl.col("phase_name") == "measure").sort("start_ns", "drain")
    for _, interval in measured.group_by("start_ns", "drain", maintain_order=True):
        rows = list(interval.iter_rows(named=True))
        # Collections before an interval belong to no line.
        collections(rows[0]["start_ns"])
        lines += map(line_text, maker.lines(rows, collections(rows[0]["end_ns"])))
    return "\n".join([*lines, results_text(stress_results(run, rules))]).rstrip()
