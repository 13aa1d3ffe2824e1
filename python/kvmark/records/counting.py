"""How engines have counted, as numbers: with each the same work gives other figures than before.

An engine writes its number into the record of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Counting:
    """What changed, as the end of "since then …", and which figures it moves."""

    changed: str
    moves: str


COUNTINGS: Final[Mapping[int, Counting]] = {
    1: Counting("everything is counted as kvmark 0.1.0 began", "nothing"),
    2: Counting(
        "each client of the open model has its share of the arrivals, and why an operation is late"
        " is told when it is issued",
        "wait and response times of the open model, and late operations",
    ),
    3: Counting(
        "a warm-up goes over into the measurement with its queue, an operation is issued when the"
        " kernel has its bytes, and all answers that are there are stamped before one is looked at",
        "throughput and times after a warm-up, service times of several clients, and timeouts",
    ),
    4: Counting(
        "CQL is spoken at the wire, and all the time without a client's step is waiting",
        "throughput and service times on CQL, and how busy the generator is said to be",
    ),
    5: Counting(
        "load comes from a process that has nothing else loaded",
        "the generator's memory and processor time",
    ),
    6: Counting(
        "answers that the engine reads late are no timeouts, and a read-modify-write ends as the"
        " worse of its parts",
        "timeouts and misses after a stall of the generator, and failures of read-modify-writes",
    ),
}
"""By number. The changelog names each under its heading Measurement."""


def moved_between(one: int, other: int) -> str:
    """What counts differently in two runs, and which figures that moves, as a sentence's end."""
    low, high = min(one, other), max(one, other)
    known = [COUNTINGS[number] for number in range(low + 1, high + 1) if number in COUNTINGS]
    if not known:
        return "which figures that moves a newer kvmark knows"
    changed = "; ".join(step.changed for step in known)
    return f"since then {changed}; this moves {'; '.join(step.moves for step in known)}"
