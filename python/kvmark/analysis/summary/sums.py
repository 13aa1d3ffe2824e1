"""Sums over a run's totals and intervals, and over the samples of servers during a phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import polars as pl

from kvmark.records import PhaseRecord, Run, TotalRecord
from kvmark.records.files import is_ours
from kvmark.records.histograms import ATTEMPT, COUNTED_PARTS
from kvmark.records.intervals import TIMED

ANSWERED: Final = ("ok", "miss")
"""The outcomes of operations that were answered as asked for."""
NS_PER_S: Final = 1e9
_FULL: Final = 0.99
"""An interval is full if it lacks at most one part in a hundred of the usual length."""
_SUCCEEDED: Final = (pl.col("outcome") == "ok") & ~pl.col("part")
IS_ALONE: Final = ~pl.col("part") | ~pl.col("operation").is_in(COUNTED_PARTS)
"""Rows of operations that no other row of one outcome counts."""
FAILED: Final = ~pl.col("outcome").is_in(["any", "ok", "miss", "mismatch"]) & IS_ALONE
"""Rows of failures. Those of the whole interval, of outcome any, exist even without operations."""
_LEAST_SAMPLES: Final = 2
_DELTAS: Final = (
    "node", "cpu_s", "bytes", "disk_read_bytes", "disk_written_bytes", "gc_s", "compactions",
    "evicted_keys", "resident_bytes", "busiest_core", "cores", "wall_s",
)  # fmt: skip
_OPTIONAL: Final = {
    "gc_time_s": pl.Float64, "disk_read_bytes": pl.Int64, "disk_written_bytes": pl.Int64,
    "compactions": pl.Int64, "evicted_keys": pl.Int64, "resident_bytes": pl.Int64,
    "busiest_core": pl.Float64, "cores": pl.Int64,
}  # fmt: skip
"""Columns that samples may lack."""
_NEEDED: Final = frozenset({"node", "at_wall_ns", "cpu_user_s", "network_sent_bytes"})


def counted_totals(run: Run, operation: str | None = None) -> list[TotalRecord]:
    """The totals of the counted phases, of one kind or of all.

    Parts of read-modify-writes are in only when their kind is asked for by name, as in YCSB.
    """
    return [
        total
        for phase in run.counted
        for total in run.totals(phase.index)
        if (not total.part if operation is None else total.operation == operation)
    ]


def window_rows(run: Run, phase: PhaseRecord) -> pl.DataFrame:
    """The rows of the intervals of a phase, without its drain."""
    return run.intervals.filter((pl.col("phase") == phase.index) & ~pl.col("drain"))


def full_intervals(run: Run, phase: PhaseRecord) -> pl.DataFrame:
    """The rows of the phase's window, without a last interval that was cut short."""
    rows = window_rows(run, phase)
    length = pl.col("end_ns") - pl.col("start_ns")
    return rows.filter(length >= _FULL * length.max())


def interval_sums(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per interval, all groups together.

    Successes and failures, attempts, the rate of successes and their mean service time, and
    arrivals that were due and not issued at its end.
    """
    length_ns = (pl.col("end_ns") - pl.col("start_ns")).clip(1)
    timed = TIMED.filter(_SUCCEEDED)
    return (
        rows.group_by("start_ns", "end_ns")
        .agg(
            succeeded=pl.col("count").filter(_SUCCEEDED).sum(),
            failed=pl.col("count").filter(FAILED).sum(),
            attempts=pl.col("count").filter(pl.col("operation") == ATTEMPT).sum(),
            backlog=pl.col("backlog").sum(),
            timed=timed.sum(),
            service_ns=(pl.col("service_ns_mean") * TIMED).filter(_SUCCEEDED).sum(),
        )
        .sort("start_ns")
        .with_columns(
            rate=pl.col("succeeded") * NS_PER_S / length_ns,
            service_ns=pl.when(pl.col("timed") > 0).then(pl.col("service_ns") / pl.col("timed")),
        )
    )


def hit_ratios(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """The share of reads that found their record, by group with `on_miss` and interval."""
    reads = [
        (pl.col("group") == group["name"]) & (pl.col("operation") == run.operation(entry))
        for group in run.manifest.plan.get("groups", ())
        if group.get("on_miss")
        for entry in group["mix"]
        if entry["kind"] == "read"
    ]
    answered = ~pl.col("part") & pl.col("outcome").is_in(ANSWERED)
    found = pl.col("count").filter(pl.col("outcome") == "ok").sum()
    return (
        rows.filter(answered & pl.any_horizontal(pl.lit(value=False), *reads))
        .group_by("start_ns", "end_ns", series="group")
        .agg(value=found / pl.col("count").sum())
        .sort("series", "start_ns")
    )


def busy_shares(run: Run, phase: PhaseRecord, least_wall_ns: int = 1) -> dict[int, float]:
    """The share of a core that each worker used, without idle polling.

    Empty for an embedded system, which shares their threads.
    """
    capabilities = run.manifest.engine.capabilities
    if capabilities is None or capabilities.embedded:
        return {}
    return {
        worker.worker: (worker.cpu_ns - worker.idle_spin_ns) / worker.wall_ns
        for worker in phase.workers
        if worker.cpu_ns is not None and worker.wall_ns >= least_wall_ns
    }


def waiting_for_core(phase: PhaseRecord) -> tuple[int, int, int] | None:
    """Nanoseconds in which workers were ready and had no core, of their time, and their number."""
    known = [
        (worker.waiting_for_core_ns, worker.wall_ns)
        for worker in phase.workers
        if worker.waiting_for_core_ns is not None and worker.wall_ns > 0
    ]
    return (sum(ns for ns, _ in known), sum(ns for _, ns in known), len(known)) if known else None


def counter_deltas(run: Run, record: PhaseRecord) -> pl.DataFrame:
    """How much each server's counters rose over its samples in a phase, its drain included.

    One row per server, none if none was observed: CPU time in `cpu_s`, traffic in `bytes`, bytes
    of disks, garbage collections in `gc_s`, completed compactions, removed records in
    `evicted_keys`, and the time from the first to the last sample in `wall_s`. `resident_bytes` is
    the maximum, `busiest_core` a mean, and `cores` the last number. An unknown value is None.
    """
    table = run.resources
    rows = pl.DataFrame()
    if set(table.columns) >= _NEEDED:
        others = ~pl.col("node").map_elements(is_ours, pl.Boolean)
        rows = table.filter(within(run, record) & others).sort("at_wall_ns")
    if rows.is_empty():
        return pl.DataFrame(schema=_DELTAS)
    # A column that no row has a value in may be missing, or have no type.
    optional = {
        name: (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind)
        for name, kind in _OPTIONAL.items()
    }
    rows = rows.with_columns(
        cpu=(pl.col("cpu_user_s") + pl.col("cpu_system_s")).cast(pl.Float64),
        network=(pl.col("network_sent_bytes") + pl.col("network_received_bytes")).cast(pl.Int64),
        **optional,
    )
    changes = rows.group_by("node", maintain_order=True).agg(
        cpu_s=counter_delta("cpu"),
        bytes=counter_delta("network"),
        disk_read_bytes=counter_delta("disk_read_bytes"),
        disk_written_bytes=counter_delta("disk_written_bytes"),
        gc_s=counter_delta("gc_time_s"),
        compactions=counter_delta("compactions"),
        evicted_keys=counter_delta("evicted_keys"),
        resident_bytes=pl.col("resident_bytes").max(),
        busiest_core=pl.col("busiest_core").mean(),
        cores=pl.col("cores").drop_nulls().last(),
        wall_s=counter_delta("at_wall_ns") / NS_PER_S,
    )
    return changes.filter(pl.col("wall_s") > 0)


def counter_delta(counter: str) -> pl.Expr:
    """The increase of a counter over its samples; None with too few. A restart sets it to 0."""
    known = pl.col(counter).drop_nulls()
    return pl.when(known.len() >= _LEAST_SAMPLES).then(known.diff().clip(lower_bound=0).sum())


def statistic_delta(record: PhaseRecord, name: str) -> float | None:
    """The increase of a counter of the system in a phase; None if it isn't one. A reset is 0."""
    counter = record.statistics.get(name)
    if counter is None or counter.before is None or counter.after is None:
        return None
    return max(0.0, counter.after - counter.before)


def within(run: Run, record: PhaseRecord) -> pl.Expr:
    """Samples of a phase, its drain included."""
    origin_ns = run.manifest.engine.started_wall_ns
    return pl.col("at_wall_ns").is_between(
        origin_ns + record.start_ns, origin_ns + (record.drained_ns or record.end_ns)
    )


def sampled_share(run: Run, record: PhaseRecord) -> float:
    """How much of a phase's time lies between its first and its last sample of any node.

    What a server used between its samples, divided by this, is what it used in the phase: the ends
    are taken to be like the rest, and a server that died gave no more samples.
    """
    at_ns = run.resources.filter(within(run, record))["at_wall_ns"]
    first_ns, last_ns = cast("int", at_ns.min()), cast("int", at_ns.max())
    return (last_ns - first_ns) / ((record.drained_ns or record.end_ns) - record.start_ns)


def disk_bytes_per_operation(runs: Sequence[Run]) -> float | None:
    """What the servers read from their disks for an operation, in the counted phases of runs.

    All they read counts, compaction too; what the page cache held isn't read. None where a phase
    is too short for two samples of one server, or the kernel keeps the counter to itself.
    """
    read_bytes = 0.0
    for run in runs:
        for record in run.counted:
            deltas = counter_deltas(run, record)
            if deltas.is_empty() or deltas["disk_read_bytes"].null_count():
                return None
            read_bytes += float(deltas["disk_read_bytes"].sum()) / sampled_share(run, record)
    operations = sum(total.count for run in runs for total in counted_totals(run))
    return read_bytes / operations if operations else None
