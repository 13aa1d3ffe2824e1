"""How much the counters of servers rose while a phase went, from the samples of each second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import polars as pl

from kvmark.records import PhaseRecord, Run
from kvmark.records.files import is_ours

_LEAST_SAMPLES: Final = 2
_NS_PER_S: Final = 1e9
_RISES: Final = ("node", "cpu_s", "bytes", "disk_read_bytes", "gc_s", "wall_s")
_NEEDED: Final = frozenset({"node", "at_wall_ns", "cpu_user_s", "network_sent_bytes"})


def counter_deltas(run: Run, record: PhaseRecord) -> pl.DataFrame:
    """How much each server's counters rose over its samples in a phase, its drain included.

    One row per server, none if none was observed: CPU time in `cpu_s`, traffic in `bytes`, reads
    from disks in `disk_read_bytes`, garbage collections in `gc_s`, and the time from the first to
    the last sample in `wall_s`. An unknown counter is None.
    """
    table = run.resources
    if not set(table.columns) >= _NEEDED:
        return pl.DataFrame(schema=_RISES)
    rows = table.filter(
        _within(run, record) & ~pl.col("node").map_elements(is_ours, pl.Boolean)
    ).sort("at_wall_ns")
    if rows.is_empty():
        return pl.DataFrame(schema=_RISES)
    rows = rows.with_columns(
        cpu=pl.col("cpu_user_s") + pl.col("cpu_system_s"),
        network=pl.col("network_sent_bytes") + pl.col("network_received_bytes"),
    )
    for name, kind in (("gc_time_s", pl.Float64), ("disk_read_bytes", pl.Int64)):
        # A column that no row has a value in may be missing, or have no type.
        known = pl.col(name) if name in rows.columns else pl.lit(None)
        rows = rows.with_columns(known.cast(kind).alias(name))
    changes = rows.group_by("node", maintain_order=True).agg(
        cpu_s=counter_delta("cpu"),
        bytes=counter_delta("network"),
        disk_read_bytes=counter_delta("disk_read_bytes"),
        gc_s=counter_delta("gc_time_s"),
        wall_s=counter_delta("at_wall_ns") / _NS_PER_S,
    )
    return changes.filter(pl.col("wall_s") > 0)


def sampled_share(run: Run, record: PhaseRecord) -> float:
    """How much of a phase's time lies between its first and its last sample of any node.

    What a server used between its samples, divided by this, is what it used in the phase: the ends
    are taken to be like the rest, and a server that died gave no more samples.
    """
    at_ns = run.resources.filter(_within(run, record))["at_wall_ns"]
    first_ns, last_ns = cast("int", at_ns.min()), cast("int", at_ns.max())
    return (last_ns - first_ns) / ((record.drained_ns or record.end_ns) - record.start_ns)


def _within(run: Run, record: PhaseRecord) -> pl.Expr:
    """Samples of a phase, its drain included."""
    origin_ns = run.manifest.engine.started_wall_ns
    return pl.col("at_wall_ns").is_between(
        origin_ns + record.start_ns, origin_ns + (record.drained_ns or record.end_ns)
    )


def disk_bytes_per_operation(runs: Sequence[Run]) -> float | None:
    """What the servers read from their disks for an operation, in the counted phases of runs.

    All they read counts, compaction too; what the page cache held isn't read. None where a phase
    is too short for two samples of one server, or the kernel keeps the counter to itself.
    """
    read_bytes, operations = 0.0, 0
    for run in runs:
        for record in run.counted:
            found = counter_deltas(run, record)
            if found.is_empty() or found["disk_read_bytes"].null_count():
                return None
            read_bytes += float(found["disk_read_bytes"].sum()) / sampled_share(run, record)
            whole = (total for total in run.totals(record.index) if not total.part)
            operations += sum(total.count for total in whole)
    return read_bytes / operations if operations else None


def counter_delta(counter: str) -> pl.Expr:
    """The increase of a counter over its samples; None with too few. A restart sets it to 0."""
    known = pl.col(counter).drop_nulls()
    return pl.when(known.len() >= _LEAST_SAMPLES).then(known.diff().clip(lower_bound=0).sum())
