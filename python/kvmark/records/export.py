"""A run in the formats of other programs: CSV, HdrHistogram log, YCSB's final text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from kvmark.errors import RecordsError
from kvmark.records import files
from kvmark.records.files import TimeName
from kvmark.records.model import TotalRecord
from kvmark.records.run import Run
from kvmark.stats import Counts

Measured = Literal["op", "intended", "both"]

#: YCSB's ``hdrhistogram.percentiles``.
YCSB_PERCENTILES = (50.0, 95.0, 99.0)

# YCSB's status names (site.ycsb.Status) by outcome; others are ERROR.
_STATUS: Mapping[str, str] = {
    "ok": "OK",
    "miss": "NOT_FOUND",
    "mismatch": "UNEXPECTED_STATE",
    "unavailable": "SERVICE_UNAVAILABLE",
    "overloaded": "SERVICE_UNAVAILABLE",
    "refused": "BAD_REQUEST",
}


def as_hlog(run: Run) -> bytes:
    """The HdrHistogram log, byte for byte.

    Raises:
        RecordsError: the run has none.
    """
    try:
        return files.read_file(run.path / files.HISTOGRAMS)
    except OSError as problem:
        raise RecordsError(
            f"the histograms of run {run.id} can't be read: {problem.strerror}"
        ) from problem


def as_ycsb(
    run: Run,
    percentiles: Sequence[float] = YCSB_PERCENTILES,
    measured: Measured = "both",
) -> str:
    """YCSB's final text, without the lines on garbage collection.

    YCSB's latency is service time (``op``), and its ``Intended-`` series is response time. As in
    YCSB, READ and UPDATE include the parts of read-modify-writes, the run ends with its last
    operation, and failures have their own series.

    Raises:
        RecordsError: a histogram can't be decoded, or the run was imported.
    """
    if run.manifest.imported is not None:
        raise RecordsError(
            f"run {run.id} was imported and has no operations of its own to write: export it as"
            " json or csv"
        )
    totals = [total for phase in run.counted for total in run.totals(phase.index)]
    runtime_ns = sum(
        max(phase.end_ns, phase.drained_ns or 0) - phase.start_ns for phase in run.counted
    )
    operations = sum(total.count for total in totals if not total.part)
    rate = operations * 1e9 / runtime_ns if runtime_ns else 0.0
    lines = [
        f"[OVERALL], RunTime(ms), {round(runtime_ns / 1e6)}",
        f"[OVERALL], Throughput(ops/sec), {rate!r}",
    ]
    times: list[tuple[str, TimeName]] = [("", "service"), ("Intended-", "response")]
    chosen = {"op": times[:1], "intended": times[1:], "both": times}[measured]
    for prefix, time in chosen:
        for operation in dict.fromkeys(total.operation for total in totals):
            name = f"{prefix}{operation}"
            series = [total for total in totals if total.operation == operation]
            failed = [total for total in series if total.outcome != "ok"]
            ok = [total for total in series if total.outcome == "ok"]
            lines += _figures(run, name, ok, time, percentiles)
            returned = Counter[str]()
            for total in series:
                returned[_STATUS.get(total.outcome, "ERROR")] += total.count
            lines += [f"[{name}], Return={status}, {count}" for status, count in returned.items()]
            if failed:
                lines += _figures(run, f"{name}-FAILED", failed, time, percentiles)
    return "\n".join(lines) + "\n"


def _figures(
    run: Run,
    name: str,
    totals: Sequence[TotalRecord],
    time: TimeName,
    percentiles: Sequence[float],
) -> Iterator[str]:
    recorded = [(total.count, getattr(total, time)) for total in totals]
    count = sum(n for n, _ in recorded)
    yield f"[{name}], Operations, {count}"
    if not count:
        return
    mean_ns = sum(n * figures.mean for n, figures in recorded) / count
    largest_ns = max(figures.max for _, figures in recorded)
    yield f"[{name}], AverageLatency(us), {mean_ns / 1000!r}"
    yield f"[{name}], MinLatency(us), {min(figures.min for _, figures in recorded) // 1000}"
    yield f"[{name}], MaxLatency(us), {largest_ns // 1000}"
    counts = Counts.merge(run.times(total, time) for total in totals)
    for percentile in percentiles:
        # A quantile is the end of a bucket, which can exceed the largest value.
        value_ns = min(counts.quantile(percentile / 100) or 0, largest_ns)
        yield f"[{name}], {_ordinal(percentile)}PercentileLatency(us), {value_ns // 1000}"


def _ordinal(percentile: float) -> str:
    """50th, 99th and 1st, but 99.9, as in YCSB."""
    if percentile % 1:
        return f"{percentile:g}"
    whole = int(percentile)
    if whole % 100 in (11, 12, 13):
        return f"{whole}th"
    return str(whole) + {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
