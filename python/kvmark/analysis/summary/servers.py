"""What observed servers used in a run's counted phases, as rates and shares."""

from __future__ import annotations

from dataclasses import dataclass

from kvmark.analysis.summary.sums import counter_deltas
from kvmark.records import Run


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """An observed server in a phase; None for what it doesn't report."""

    phase: str
    name: str
    busy_cores: float | None
    cores: int | None
    busiest_core: float | None
    """The mean share of the core that was busiest in each second."""
    resident_bytes: int | None
    disk_bytes_per_s: float | None
    network_bytes_per_s: float | None
    gc_share: float | None
    compactions: int | None
    evicted_keys: int | None


def server_usages(run: Run) -> tuple[ServerUsage, ...]:
    """The usage of each observed server by phase; none without two samples."""
    names = {one.name for one in run.manifest.observed}
    if not names:
        return ()
    return tuple(
        ServerUsage(
            phase=phase.name, name=row["node"], cores=row["cores"],
            busy_cores=_per_s(row["cpu_s"], row["wall_s"]), busiest_core=row["busiest_core"],
            resident_bytes=row["resident_bytes"],
            disk_bytes_per_s=_per_s(
                row["disk_read_bytes"], row["wall_s"], row["disk_written_bytes"] or 0
            ),
            network_bytes_per_s=_per_s(row["bytes"], row["wall_s"]),
            gc_share=_per_s(row["gc_s"], row["wall_s"]),
            compactions=row["compactions"], evicted_keys=row["evicted_keys"],
        )
        for phase in run.counted
        for row in counter_deltas(run, phase).iter_rows(named=True)
        if row["node"] in names
    )  # fmt: skip


def _per_s(gain: float | None, wall_s: float, more: float = 0.0) -> float | None:
    return None if gain is None else (gain + more) / wall_s
