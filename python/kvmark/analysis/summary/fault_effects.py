"""What a planned fault did to the service: how long there was none, and when it was as before.

Everything is as fine as the run's intervals: an interval counts as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import Final

import polars as pl

from kvmark.analysis.summary.faults import FaultSpan, fault_spans
from kvmark.records import PhaseRecord, Run

__all__ = ["RECOVERED", "FaultEffect", "fault_effects", "measured_phase"]

RECOVERED: Final = 0.8
"""The share of the median rate before the first fault from which on the service is as before."""

_LEAST_BEFORE: Final = 3
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What followed a fault, until the next one began or the measurement ended."""

    #: As it was planned.
    text: str
    node: str
    begun_ns: int
    #: None when the server wasn't brought back.
    ended_ns: int | None
    #: The intervals together in which no operation succeeded.
    without_service_ns: int
    #: From the fault's begin until the rate stayed above 80 % of that before; 0 when it never fell
    #: below. None when it was still below at the end, or when too little was measured before.
    recovery_ns: int | None
    #: From the fault's begin until, the rate being as before, no more arrivals waited to be issued
    #: than before the first fault; the same as the former without a target rate.
    caught_up_ns: int | None
    #: The median of operations per second before the first fault; none where too little was
    #: measured before.
    rate_before: float | None
    #: Failed operations by error class.
    errors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Slice:
    """An interval of the measurement."""

    start_ns: int
    end_ns: int
    ok: int
    #: Arrivals that were due and not issued at its end.
    backlog: int

    @property
    def rate(self) -> float:
        return self.ok * _NS_PER_S / max(self.end_ns - self.start_ns, 1)


@dataclass(frozen=True, slots=True)
class _Quiet:
    """The service before the first fault."""

    #: The median rate; none where too little was measured.
    rate: float | None
    #: The most arrivals that waited to be issued.
    backlog: int


def fault_effects(run: Run) -> tuple[FaultEffect, ...]:
    """The effects of all faults that were carried out, in the order in which they began."""
    spans = fault_spans(run)
    phase = measured_phase(run)
    if not spans or phase is None:
        return ()
    slices = _slices(run, phase)
    before = [each.rate for each in slices if each.end_ns <= spans[0].begun_ns]
    usual = median(before) if len(before) >= _LEAST_BEFORE else None
    waited = (each.backlog for each in slices if each.end_ns <= spans[0].begun_ns)
    quiet = _Quiet(usual, max(waited, default=0))
    return tuple(
        _effect(run, phase, span, slices, quiet, phase.end_ns if after is None else after.begun_ns)
        for span, after in zip_longest(spans, spans[1:])
    )


def measured_phase(run: Run) -> PhaseRecord | None:
    """The phase that measures: faults belong to it."""
    return next((each for each in run.manifest.engine.phases if each.name == "measure"), None)


def _effect(
    run: Run,
    phase: PhaseRecord,
    span: FaultSpan,
    slices: Sequence[_Slice],
    quiet: _Quiet,
    until_ns: int,
) -> FaultEffect:
    mine = [one for one in slices if one.end_ns > span.begun_ns and one.start_ns < until_ns]
    recovery_ns = caught_up_ns = None
    if quiet.rate is not None and mine:
        low = [one.end_ns for one in mine if one.rate < RECOVERED * quiet.rate]
        if not low or low[-1] < mine[-1].end_ns:
            recovered_ns = max(low, default=span.begun_ns)
            recovery_ns = recovered_ns - span.begun_ns
            caught_up_ns = _caught_up_ns(span, mine, recovered_ns, quiet.backlog)
    return FaultEffect(
        text=span.text,
        node=span.node,
        begun_ns=span.begun_ns,
        ended_ns=span.ended_ns,
        without_service_ns=sum(one.end_ns - one.start_ns for one in mine if not one.ok),
        recovery_ns=recovery_ns,
        caught_up_ns=caught_up_ns,
        rate_before=quiet.rate,
        errors=_errors(run, phase, span.begun_ns, until_ns),
    )


def _caught_up_ns(
    span: FaultSpan, mine: Sequence[_Slice], recovered_ns: int, backlog: int
) -> int | None:
    """From the fault's begin until the service was as before and nothing more waited."""
    back_ns = max(recovered_ns, span.ended_ns or recovered_ns)
    if any(one.end_ns <= back_ns and one.backlog > backlog for one in mine):
        waited = (one for one in mine if one.end_ns >= back_ns)
        back_ns_found = next((one.end_ns for one in waited if one.backlog <= backlog), None)
        return None if back_ns_found is None else back_ns_found - span.begun_ns
    return recovered_ns - span.begun_ns


def _slices(run: Run, phase: PhaseRecord) -> list[_Slice]:
    ok = (pl.col("outcome") == "ok") & ~pl.col("part")
    rows = run.intervals.filter((pl.col("phase") == phase.index) & ~pl.col("drain"))
    sums = rows.group_by("start_ns", "end_ns").agg(
        pl.col("count").filter(ok).sum(), pl.col("backlog").sum()
    )
    return [_Slice(*map(int, row)) for row in sums.sort("start_ns").iter_rows()]


def _errors(run: Run, phase: PhaseRecord, from_ns: int, until_ns: int) -> dict[str, int]:
    failed = ~pl.col("outcome").is_in(["ok", "miss", "mismatch"]) & ~pl.col("part")
    rows = run.intervals.filter(
        (pl.col("phase") == phase.index)
        & (pl.col("operation") != "TOTAL")
        & (pl.col("end_ns") > from_ns)
        & (pl.col("start_ns") < until_ns)
        & failed
    )
    sums = rows.group_by("outcome").agg(pl.col("count").sum()).sort("outcome")
    return {str(outcome): int(count) for outcome, count in sums.iter_rows()}
