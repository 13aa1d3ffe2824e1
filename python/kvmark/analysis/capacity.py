"""The result of a search for capacity, with its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "missed", "generator", "too few"]
"""The objective held; it was missed; the generator, not the system, was the limit; there were too
few operations."""
Stage = Literal["bracket", "bisect", "confirm"]
Ending = Literal["found", "nowhere", "generator", "clients", "open"]
"""An interval; no rate holds; the generator or the number of clients is the limit; no rate was
missed."""


@dataclass(frozen=True, slots=True)
class RateRun:
    """The result of a run, or of several runs, at a rate."""

    #: Operations per second offered.
    rate: float
    stage: Stage
    run: str
    outcome: Outcome
    #: Sentences with the reasons for another outcome than "holds".
    reasons: tuple[str, ...]
    #: Each objective's figure by its text: nanoseconds, a share, or ops/s; none where unknown.
    figures: Mapping[str, float | None]
    #: Successful operations per second.
    throughput: float
    notes: tuple[str, ...] = ()
    #: The limit of operations in flight, and whether enough operations waited for it to explain a
    #: missed objective.
    clients: int = 0
    held_back: bool = False

    @property
    def holds(self) -> bool:
        """Whether every objective held and nothing was dropped."""
        return self.outcome == "holds"


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of a search. Rates are operations per second."""

    found: Ending
    #: The highest rate that holds.
    low: float | None
    #: The next rate, which is missed.
    high: float | None
    #: The reason for a missing end.
    reason: str
    runs: tuple[RateRun, ...]
    #: The limit of operations in flight at the ends.
    clients: int
