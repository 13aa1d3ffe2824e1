"""Figures that others published, to stand beside ours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

#: Where the figures of the YCSB sequence come from, as a report names it.
YCSB_SOURCE = "Redis and RocksDB under YCSB, published comparison (load, A to F)"

_YCSB_FILE = "ycsb-redis-rocksdb.csv"


@dataclass(frozen=True, slots=True)
class Published:
    """Somebody else's figures for one case: single runs, without an error."""

    workload: str
    store: str
    records: int
    runtime_ms: float
    throughput: float


@cache
def ycsb_sequence() -> tuple[Published, ...]:
    """The published YCSB sequence, in the order of its file."""
    text = resources.files("kvmark").joinpath("published", _YCSB_FILE).read_text(encoding="utf-8")
    return tuple(
        Published(
            workload=row["workload"],
            store=row["store"],
            records=int(row["records"]),
            runtime_ms=float(row["runtime_ms"]),
            throughput=float(row["throughput_ops_s"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def published(workload: str, store: str, records: int) -> Published | None:
    """The published figures of a case; none when it was not published."""
    for figures in ycsb_sequence():
        if (figures.workload, figures.store, figures.records) == (workload, store, records):
            return figures
    return None
