"""A measurement cut where faults began and where the service was as before again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.summary.fault_effects import FaultEffect, fault_effects, measured_phase
from kvmark.records import PhaseRecord, Run

__all__ = ["Segment", "quiet_segments", "segments"]

BEFORE: Final = "before"
AFTER: Final = "after"


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

    A fault lasts until its server is back, the rate as before and what fell due meanwhile issued,
    or until the next fault.
    """
    found = [Segment(BEFORE, phase.start_ns, effects[0].begun_ns)]
    ends_ns = [*(each.begun_ns for each in effects[1:]), phase.end_ns]
    for effect, until_ns in zip(effects, ends_ns, strict=True):
        over_ns = until_ns
        if effect.ended_ns is not None and effect.caught_up_ns is not None:
            over_ns = min(until_ns, max(effect.ended_ns, effect.begun_ns + effect.caught_up_ns))
        found.append(Segment(effect.text, effect.begun_ns, over_ns, is_fault=True))
        found.append(Segment(AFTER, over_ns, until_ns))
    return found


def quiet_segments(run: Run, phase: PhaseRecord) -> tuple[Segment, ...]:
    """The parts of a phase in which no fault acted: the whole of it where none was planned."""
    effects = fault_effects(run)
    if not effects or phase != measured_phase(run):
        return (Segment("", phase.start_ns, phase.end_ns),)
    quiet = (one for one in segments(phase, effects) if not one.is_fault)
    return tuple(one for one in quiet if one.end_ns > one.start_ns)
