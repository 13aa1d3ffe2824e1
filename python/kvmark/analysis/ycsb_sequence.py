"""The YCSB sequence as a table: one row per workload, store, number of records and target rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvmark.analysis.aggregate import CaseSummary, aggregate
from kvmark.analysis.published import Published, published
from kvmark.records import Run

#: The order in which the published sequence runs its workloads.
ORDER = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What repetitions have in common."""

    workload: str
    store: str
    records: int
    #: Operations per second; none when clients go as fast as the store lets them.
    target_rate: float | None = None


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """One case with its figures, and the published ones where there are some."""

    case: Case
    figures: CaseSummary
    published: Published | None


def ycsb_sequence(runs: Iterable[Run]) -> tuple[SequenceRow, ...]:
    """The table of all runs: repetitions together, in the order of the published sequence.

    Raises:
        RecordsError: a run's files can't be read.
    """
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        cases.setdefault(case_of(run), []).append(run)
    return tuple(
        SequenceRow(case, aggregate(found), _published(case))
        for case, found in sorted(cases.items(), key=lambda item: _place(item[0]))
    )


def case_of(run: Run) -> Case:
    """The case that a run belongs to, from its plan."""
    plan = run.manifest.plan
    name = str(plan.get("name", "")).rpartition("/")[2]
    return Case(
        workload=name.upper() if len(name) == 1 else name,
        store=run.manifest.engine.system.system,
        records=_records(run),
        target_rate=_target_rate(plan),
    )


def _records(run: Run) -> int:
    """Records that the sequence began with; for a run alone those that are there or inserted."""
    sequence = run.manifest.spec.get("sequence", {})
    if "records" in sequence:
        return int(sequence["records"])
    plan = run.manifest.plan
    there = int(plan.get("dataset", {}).get("count", 0))
    return there or sum(active.get("operations") or 0 for active in _measured(plan))


def _target_rate(plan: Mapping[str, Any]) -> float | None:
    groups = plan.get("groups", ())
    arrivals = [groups[active["group"]].get("arrival", {}) for active in _measured(plan)]
    rates = [arrival["rates"][-1]["rate"] for arrival in arrivals if arrival.get("rates")]
    return float(sum(rates)) if rates else None


def _measured(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    phases = [phase for phase in plan.get("phases", ()) if phase.get("name") == "measure"]
    return [active for phase in phases for active in phase.get("groups", ())]


def _published(case: Case) -> Published | None:
    if case.target_rate is not None:
        return None
    return published(case.workload, case.store, case.records)


def _place(case: Case) -> tuple[int, str, str, int, float]:
    known = ORDER.index(case.workload) if case.workload in ORDER else len(ORDER)
    unlimited = float("inf") if case.target_rate is None else case.target_rate
    return known, case.workload, case.store, case.records, unlimited
