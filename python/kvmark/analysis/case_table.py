"""The YCSB sequence as a table: one row per workload, store, number of records and target rate."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from kvmark.analysis.summary.aggregate import CaseSummary, aggregate
from kvmark.analysis.verdict.judge import Judge, judge
from kvmark.records import Case, Run, by_case

#: Where the figures of the YCSB sequence come from, as a report names it.
YCSB_SOURCE = "Redis and RocksDB under YCSB, published comparison (load, A to F)"

_YCSB_FILE = "ycsb-redis-rocksdb.csv"
#: The order in which the published sequence runs its workloads.
_ORDER = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")


@dataclass(frozen=True, slots=True)
class Published:
    """Somebody else's figures for one case: single runs, without an error."""

    workload: str
    store: str
    records: int
    runtime_ms: float
    throughput: float


@cache
def published_sequence() -> tuple[Published, ...]:
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
    for figures in published_sequence():
        if (figures.workload, figures.store, figures.records) == (workload, store, records):
            return figures
    return None


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """One case with its figures, and the published ones where there are some."""

    case: Case
    figures: CaseSummary
    published: Published | None


def ycsb_sequence(runs: Iterable[Run], judged: Judge = judge) -> tuple[SequenceRow, ...]:
    """The table of all runs: repetitions together, in the order of the published sequence.

    ``judged`` gives the verdict on each.

    Raises:
        RecordsError: a run's files can't be read.
    """
    return tuple(
        SequenceRow(case, aggregate(found, judged), _published(case))
        for case, found in sorted(by_case(runs).items(), key=lambda item: _place(item[0]))
    )


def _published(case: Case) -> Published | None:
    if case.target_rate is not None:
        return None
    return published(case.workload, case.store, case.records)


def _place(case: Case) -> tuple[int, str, str, int, float]:
    known = _ORDER.index(case.workload) if case.workload in _ORDER else len(_ORDER)
    unlimited = float("inf") if case.target_rate is None else case.target_rate
    return known, case.workload, case.store, case.records, unlimited
