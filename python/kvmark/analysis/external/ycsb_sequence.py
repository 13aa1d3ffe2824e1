"""The YCSB sequence as a table: one row per workload, store, number of records and target rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvmark.analysis.external.published import Published, published
from kvmark.analysis.summary.aggregate import CaseSummary, aggregate
from kvmark.analysis.verdict.judge import Judge, judge
from kvmark.records import Case, Run, by_case

#: The order in which the published sequence runs its workloads.
ORDER = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")


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
    known = ORDER.index(case.workload) if case.workload in ORDER else len(ORDER)
    unlimited = float("inf") if case.target_rate is None else case.target_rate
    return known, case.workload, case.store, case.records, unlimited
