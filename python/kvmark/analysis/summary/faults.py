"""Planned faults: whether they were carried out, how long the service was gone, when it was back.

A measurement is cut where faults began and where the service was as before again.

Everything is as fine as the run's intervals: an interval counts as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import Any, Final

import polars as pl

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
_NS_PER_S: Final = 1e9


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
    ends = {_key(event): int(event["at_ns"]) for event in _faults(run, "ended")}
    return tuple(
        FaultSpan(
            text=str(event["fault"]),
            do=str(event.get("do", "")),
            node=str(event["node"]),
            begun_ns=int(event["at_ns"]),
            ended_ns=ends.get(_key(event)),
        )
        for event in _faults(run, "begun")
    )


def problems(run: Run) -> dict[str, str]:
    """The faults that weren't carried out as planned, and why."""
    events = (*_faults(run, "failed"), *_faults(run, "not_reached"))
    return {str(event["fault"]): str(event.get("problem", "")) for event in events}


def expected_errors(run: Run, phase: PhaseRecord) -> dict[str, int]:
    """Failures by class in intervals that a fault, or the recovery from it, touches."""
    spans = fault_spans(run)
    if not spans:
        return {}
    rows = run.intervals.filter(
        (pl.col("phase") == phase.index)
        & (pl.col("operation") != "TOTAL")
        & ~pl.col("part")
        & ~pl.col("outcome").is_in(["ok", "miss", "mismatch"])
    )
    touched = rows.filter(pl.any_horizontal(_touched(span) for span in spans))
    sums = touched.group_by("outcome").agg(pl.col("count").sum())
    return {str(outcome): int(count) for outcome, count in sums.iter_rows()}


def _touched(span: FaultSpan) -> pl.Expr:
    return (pl.col("end_ns") > span.begun_ns) & (pl.col("start_ns") < span.over_ns)


def _faults(run: Run | OpenRun, state: str) -> Iterator[dict[str, Any]]:
    for event in run.events:
        if event.get("kind") == "fault" and event.get("state") == state:
            yield event


def _key(event: dict[str, Any]) -> str:
    """A fault's text says its planned begin and its server, so that no two are alike."""
    return str(event["fault"])


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a phase. Instants count from the run's origin."""

    #: ``before``, ``after``, or the fault as it was planned; empty for a phase without faults.
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
