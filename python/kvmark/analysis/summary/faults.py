"""Planned faults: whether they were carried out, how long the service was gone, when it was back.

A measurement is cut where faults began and where the service was as before again.

Everything is as fine as the run's intervals: an interval counts as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import Any, Final

import polars as pl

from kvmark.analysis.summary.sums import FAILED, interval_sums, window_rows
from kvmark.records import OpenRun, PhaseRecord, Run

_RECOVERY_NS = 5_000_000_000
"""How long after a fault errors are still its consequence.

Drivers try a lost connection again after a second at most, and a server needs a moment to take its
clients back.
"""
_BEFORE: Final = "before"
_AFTER: Final = "after"
RECOVERED: Final = 0.8
"""The share of the median rate before the first fault from which on the service is as before."""
_LEAST_BEFORE: Final = 3
_Row = Mapping[str, Any]
"""An interval of the measurement, as of `interval_sums`."""


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault as it was carried out. Instants count from the run's origin."""

    #: As it was planned.
    text: str
    do: str
    node: str
    begun_ns: int
    #: None when the server wasn't brought back.
    ended_ns: int | None

    @property
    def over_ns(self) -> float:
        """The instant until which failures are its consequence: no end without the server."""
        return math.inf if self.ended_ns is None else self.ended_ns + _RECOVERY_NS


def fault_spans(run: Run | OpenRun) -> tuple[FaultSpan, ...]:
    """The faults that were carried out, in the order in which they began."""
    # A fault's text states its planned begin and its server, so that no two are alike.
    ends = {str(event["fault"]): int(event["at_ns"]) for event in _faults(run, "ended")}
    return tuple(
        FaultSpan(
            text=str(event["fault"]),
            do=str(event.get("do", "")),
            node=str(event["node"]),
            begun_ns=int(event["at_ns"]),
            ended_ns=ends.get(str(event["fault"])),
        )
        for event in _faults(run, "begun")
    )


def problems(run: Run) -> dict[str, str]:
    """The faults that weren't carried out as planned, and why."""
    events = (*_faults(run, "failed"), *_faults(run, "not_reached"))
    return {str(event["fault"]): str(event.get("problem", "")) for event in events}


def _faults(run: Run | OpenRun, state: str) -> list[dict[str, Any]]:
    faults = (event for event in run.events if event.get("kind") == "fault")
    return [event for event in faults if event.get("state") == state]


def expected_errors(run: Run, phase: PhaseRecord) -> dict[str, int]:
    """Failures by class in intervals that a fault, or the recovery from it, touches."""
    spans = fault_spans(run)
    return _errors(run, phase, [(span.begun_ns, span.over_ns) for span in spans]) if spans else {}


def _errors(
    run: Run, phase: PhaseRecord, spans_ns: Sequence[tuple[float, float]]
) -> dict[str, int]:
    """Failures by class in the intervals of a phase that touch one of some spans."""
    touched = pl.any_horizontal(
        (pl.col("end_ns") > begin_ns) & (pl.col("start_ns") < end_ns)
        for begin_ns, end_ns in spans_ns
    )
    rows = run.intervals.filter((pl.col("phase") == phase.index) & FAILED & touched)
    sums = rows.group_by("outcome").agg(pl.col("count").sum()).sort("outcome")
    return {str(outcome): int(count) for outcome, count in sums.iter_rows()}


@dataclass(frozen=True, slots=True)
class Segment:
    """A phase, or a part of it. Instants count from the run's origin."""

    #: The phase's; of a part ``before``, ``after`` or the planned fault, or empty without faults.
    name: str
    start_ns: int
    end_ns: int
    #: Whether a fault acted, or its consequences did.
    is_fault: bool = False

    @property
    def place(self) -> str:
        """Where it is, for the end of a phrase."""
        return f" {self.name} the fault" if self.name else ""


def segments(phase: PhaseRecord, effects: Sequence[FaultEffect]) -> list[Segment]:
    """Before the first fault, then each fault and what came after it.

    A fault lasts until its server is back, the rate as before and the overdue operations issued, or
    until the next fault.
    """
    found = [Segment(_BEFORE, phase.start_ns, effects[0].begun_ns)]
    ends_ns = [*(each.begun_ns for each in effects[1:]), phase.end_ns]
    for effect, until_ns in zip(effects, ends_ns, strict=True):
        over_ns = until_ns
        if effect.ended_ns is not None and effect.caught_up_ns is not None:
            over_ns = min(until_ns, max(effect.ended_ns, effect.begun_ns + effect.caught_up_ns))
        found.append(Segment(effect.text, effect.begun_ns, over_ns, is_fault=True))
        found.append(Segment(_AFTER, over_ns, until_ns))
    return found


def quiet_segments(run: Run, phase: PhaseRecord) -> tuple[Segment, ...]:
    """The parts of a phase in which no fault acted: the whole of it where none was planned."""
    effects = fault_effects(run)
    if not effects or phase != measured_phase(run):
        return (Segment("", phase.start_ns, phase.end_ns),)
    quiet = (one for one in segments(phase, effects) if not one.is_fault)
    return tuple(one for one in quiet if one.end_ns > one.start_ns)


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What followed a fault, until the next one began or the measurement ended."""

    #: As it was planned.
    text: str
    node: str
    begun_ns: int
    #: None when the server wasn't brought back.
    ended_ns: int | None
    #: The intervals together in which no operation succeeded: service was away at least so long.
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


def fault_effects(run: Run) -> tuple[FaultEffect, ...]:
    """The effects of all faults that were carried out, in the order in which they began."""
    spans = fault_spans(run)
    phase = measured_phase(run)
    if not spans or phase is None:
        return ()
    rows = interval_sums(window_rows(run, phase)).to_dicts()
    before = [row for row in rows if row["end_ns"] <= spans[0].begun_ns]
    usual = median(row["rate"] for row in before) if len(before) >= _LEAST_BEFORE else None
    backlog = max((int(row["backlog"]) for row in before), default=0)
    effects = []
    for span, after in zip_longest(spans, spans[1:]):
        until_ns = phase.end_ns if after is None else after.begun_ns
        its = [row for row in rows if row["end_ns"] > span.begun_ns and row["start_ns"] < until_ns]
        recovery_ns = None if usual is None else _recovery_ns(span, its, RECOVERED * usual)
        waited_ns = None if recovery_ns is None else _caught_up_ns(span, its, recovery_ns, backlog)
        effects.append(
            FaultEffect(
                *(span.text, span.node, span.begun_ns, span.ended_ns),
                without_service_ns=sum(
                    row["end_ns"] - row["start_ns"] for row in its if not row["succeeded"]
                ),
                recovery_ns=recovery_ns,
                caught_up_ns=waited_ns,
                rate_before=usual,
                errors=_errors(run, phase, [(span.begun_ns, until_ns)]),
            )
        )
    return tuple(effects)


def measured_phase(run: Run) -> PhaseRecord | None:
    """The phase that measures: faults belong to it."""
    return next((each for each in run.manifest.engine.phases if each.name == "measure"), None)


def _recovery_ns(span: FaultSpan, rows: Sequence[_Row], least_rate: float) -> int | None:
    """From the fault's begin until the rate stayed at the least one; None if it never did."""
    low = [int(row["end_ns"]) for row in rows if row["rate"] < least_rate]
    if not rows or (low and low[-1] >= rows[-1]["end_ns"]):
        return None
    return max(low, default=span.begun_ns) - span.begun_ns


def _caught_up_ns(
    span: FaultSpan, rows: Sequence[_Row], recovery_ns: int, backlog: int
) -> int | None:
    """From the fault's begin until the service was as before and nothing more waited."""
    back_ns = max(span.begun_ns + recovery_ns, span.ended_ns or 0)
    if all(row["end_ns"] > back_ns or row["backlog"] <= backlog for row in rows):
        return recovery_ns
    waited = (row for row in rows if row["end_ns"] >= back_ns and row["backlog"] <= backlog)
    return next((int(row["end_ns"]) - span.begun_ns for row in waited), None)
