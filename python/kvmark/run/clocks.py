"""How far another machine's clock is from this one's, asked over the network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Offset", "clock_offset"]

ASKED: Final = 20
"""How often a clock is asked: of so many round trips one is nearly undisturbed."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The other clock minus this one, and the round trip by which that is known.

    The other clock was read at some instant of the round trip. Taken as its middle, the offset is
    off by half the round trip at most.
    """

    offset_ns: int
    round_trip_ns: int


def clock_offset(
    ask: Callable[[], int], asked: int = ASKED, now_ns: Callable[[], int] = time.time_ns
) -> Offset:
    """The offset by the quickest of several round trips (Cristian 1989); `ask` reads the clock."""
    return min((_once(ask, now_ns) for _ in range(asked)), key=lambda one: one.round_trip_ns)


def _once(ask: Callable[[], int], now_ns: Callable[[], int]) -> Offset:
    before_ns = now_ns()
    theirs_ns = ask()
    after_ns = now_ns()
    return Offset(theirs_ns - (before_ns + after_ns) // 2, after_ns - before_ns)
