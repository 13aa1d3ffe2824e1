"""What was broken on purpose: when, on which server, and whether it was carried out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from kvmark.records import GoingRun, PhaseRecord, Run

__all__ = ["FaultSpan", "expected_errors", "fault_spans", "problems"]

_RECOVERY_NS = 5_000_000_000
"""How long after a fault errors are still its consequence.

Drivers try a lost connection again after a second at most, and a server needs a moment to take its
clients back.
"""


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


def fault_spans(run: Run | GoingRun) -> tuple[FaultSpan, ...]:
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


def _faults(run: Run | GoingRun, state: str) -> Iterator[dict[str, Any]]:
    for event in run.events:
        if event.get("kind") == "fault" and event.get("state") == state:
            yield event


def _key(event: dict[str, Any]) -> str:
    """A fault's text says its planned begin and its server, so that no two are alike."""
    return str(event["fault"])
