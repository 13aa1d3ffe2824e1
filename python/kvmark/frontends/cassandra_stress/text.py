"""cassandra-stress's output, line for line: its columns, its Results block, its ladder's table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kvmark.frontends.cassandra_stress.results import Figures, StressResults

_COLUMNS: Final = (
    ("total ops", 10),
    ("op/s", 8),
    ("pk/s", 8),
    ("row/s", 8),
    ("mean", 8),
    ("med", 8),
    (".95", 8),
    (".99", 8),
    (".999", 8),
    ("max", 8),
    ("time", 7),
    ("stderr", 9),
    ("errors", 7),
    ("gc: #", 7),
    ("max ms", 8),
    ("sum ms", 8),
    ("sdv ms", 8),
    ("mb", 8),
)
HEAD: Final = "type      " + ",".join(f"{name:>{width}}" for name, width in _COLUMNS)
"""The line above all others."""
_PERCENTILES: Final = (
    "Latency mean",
    "Latency median",
    "Latency 95th percentile",
    "Latency 99th percentile",
    "Latency 99.9th percentile",
    "Latency max",
)
_UNKNOWN: Final = "not known (only nodes that kvmark up started say it)"


class _Collections(Protocol):
    @property
    def count(self) -> float:
        """How many."""

    @property
    def max_ms(self) -> float:
        """The longest."""

    @property
    def sum_ms(self) -> float:
        """All together."""

    @property
    def deviation_ms(self) -> float:
        """Their standard deviation."""

    @property
    def megabytes(self) -> float:
        """What they freed."""


class Line(Protocol):
    """What a line shows; times are milliseconds."""

    @property
    def kind(self) -> str:
        """The operation, or `total`."""

    @property
    def operations(self) -> int:
        """Operations since the beginning."""

    @property
    def op_rate(self) -> float:
        """Operations a second."""

    @property
    def partition_rate(self) -> float:
        """Partitions a second."""

    @property
    def row_rate(self) -> float:
        """Rows a second."""

    @property
    def mean(self) -> float:
        """Mean time."""

    @property
    def median(self) -> float:
        """Median time."""

    @property
    def p95(self) -> float:
        """95th percentile."""

    @property
    def p99(self) -> float:
        """99th percentile."""

    @property
    def p999(self) -> float:
        """99.9th percentile."""

    @property
    def max(self) -> float:
        """Longest time."""

    @property
    def time_s(self) -> float:
        """Time since the beginning."""

    @property
    def stderr(self) -> float:
        """The rate's relative standard error."""

    @property
    def errors(self) -> int:
        """Operations that failed."""

    @property
    def collections(self) -> _Collections:
        """Collections of garbage."""


def line_text(line: Line) -> str:
    """One line."""
    gc = line.collections
    times = (line.mean, line.median, line.p95, line.p99, line.p999, line.max)
    parts = [
        f"{line.operations:>10d}",
        *(_padded(rate, 8, 0) for rate in (line.op_rate, line.partition_rate, line.row_rate)),
        *(_padded(time, 8, 1) for time in times),
        _padded(line.time_s, 7, 1),
        _padded(line.stderr, 9, 5),
        f"{line.errors:>7d}",
        _padded(gc.count, 7, 0),
        *(_padded(value, 8, 0) for value in (gc.max_ms, gc.sum_ms, gc.deviation_ms, gc.megabytes)),
    ]
    return f"{line.kind + ',':<10}" + ",".join(parts)


def _padded(value: float, width: int, digits: int) -> str:
    """A number as Java writes it: what isn't one is NaN."""
    return f"{value:>{width}.{digits}f}".replace("nan", "NaN")


def results_text(results: StressResults) -> str:
    """The Results block."""
    lines = ["", "", "Results:", *_rates(results), *_times(results), *_counts(results)]
    return "\n".join([*lines, *_collections(results), _duration(results.time_s), ""])


def _rates(results: StressResults) -> Iterator[str]:
    for name, unit, of in (
        ("Op rate", "op/s", "op_rate"),
        ("Partition rate", "pk/s", "partition_rate"),
        ("Row rate", "row/s", "row_rate"),
    ):
        own = [f"{getattr(one, of):,.0f} {unit}" for one in results.operations]
        rate = getattr(results.total, of)
        yield f"{name:<26}: {rate:>8,.0f} {unit:<5} {_each(results, own)}"


def _times(results: StressResults) -> Iterator[str]:
    def time(one: Figures, place: int) -> float:
        times = one.times[results.shown]
        return times[place] if times else float("nan")

    for place, name in enumerate(_PERCENTILES):
        own = [f"{_padded(time(one, place), 1, 1)} ms" for one in results.operations]
        all_ms = _padded(time(results.total, place), 6, 1)
        yield f"{name:<26}: {all_ms} ms {_each(results, own)}"


def _counts(results: StressResults) -> Iterator[str]:
    for name, of in (("Total partitions", "partitions"), ("Total errors", "errors")):
        own = [f"{getattr(one, of):,}" for one in results.operations]
        yield f"{name:<26}: {getattr(results.total, of):>10,} {_each(results, own)}"


def _each(results: StressResults, texts: Sequence[str]) -> str:
    """A figure of each operation, in brackets."""
    named = zip(results.operations, texts, strict=True)
    return "[" + ", ".join(f"{one.name}: {text}" for one, text in named) + "]"


def _collections(results: StressResults) -> Iterator[str]:
    garbage = results.garbage
    if garbage is None:
        for name in ("count", "memory", "time"):
            yield f"{'Total GC ' + name:<26}: {_UNKNOWN}"
        yield f"{'Avg GC time':<26}: {_UNKNOWN}"
        yield f"{'StdDev GC time':<26}: {_UNKNOWN}"
        return
    mean_ms = garbage.time_s * 1000 / garbage.count if garbage.count else 0.0
    yield f"{'Total GC count':<26}: {garbage.count:,.0f}"
    yield f"{'Total GC memory':<26}: not known (the nodes' exporter doesn't say it)"
    yield f"{'Total GC time':<26}: {garbage.time_s:>6,.1f} seconds"
    yield f"{'Avg GC time':<26}: {mean_ms:>6,.1f} ms"
    yield f"{'StdDev GC time':<26}: not known (the nodes' exporter doesn't say it)"


def _duration(time_s: float) -> str:
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'Total operation time':<26}: {hours:02}:{minutes:02}:{seconds:02}"


def side_by_side(results: StressResults) -> str:
    """Response, service and wait time beside each other, in milliseconds."""
    heads = ("mean", "med", ".95", ".99", ".999", "max")
    lines = [f"{'time (ms)':<12}" + "".join(f"{head:>9}" for head in heads)]
    for sort in ("response", "service", "wait"):
        times = results.total.times[sort]
        cells = times or (float("nan"),) * len(heads)
        lines.append(f"{sort:<12}" + "".join(_padded(cell, 9, 1) for cell in cells))
    return "\n".join(lines) + "\n"


def ladder_table(rows: Sequence[tuple[str, Line]]) -> str:
    """A line for each level of a ladder, with its name before it."""
    width = max((len(name) for name, _ in rows), default=2)
    lines = [f"{'id':>{width}}, {HEAD}"]
    lines += [f"{name:>{width}}, {line_text(line)}" for name, line in rows]
    return "\n".join(lines) + "\n"
