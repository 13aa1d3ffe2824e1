"""How a trace is replayed, as the user asked for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kvmark.errors import SpecError

__all__ = ["KeptOrder", "ReplaySpec", "parse_speed"]

KeptOrder: TypeAlias = Literal["key", "client", "none"]
"""Which operations wait for one another: those of a key, of a client, or none."""


@dataclass(frozen=True, kw_only=True)
class ReplaySpec:
    """What of a trace is replayed, and how fast.

    Making one raises `SpecError` for values that are impossible alone or together.
    """

    trace: Path
    speed: float | None = 1.0
    """How many times as fast as it was recorded; None for as fast as clients go."""
    order: KeptOrder = "key"
    skip: tuple[str, ...] = ()
    """Verbs and kinds that are left out."""
    from_ns: int = 0
    until_ns: int | None = None
    scale_keys: int = 1
    """How many keys there are for each that was recorded."""
    loops: int = 1
    """How often it is replayed, one time behind the other."""

    def __post_init__(self) -> None:
        """Checks the values, each alone and then together."""
        if self.speed is not None and not (math.isfinite(self.speed) and self.speed > 0):
            raise SpecError(f"speed: must be above 0, not {self.speed:g}")
        for name, count in (("scale-keys", self.scale_keys), ("loop", self.loops)):
            if not 1 <= count < 1 << 32:
                raise SpecError(f"{name}: must be 1 or more, not {count}")
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            raise SpecError("until: the part of the trace must end behind where it begins")


def parse_speed(text: str) -> float | None:
    """A speed as on a command line: a number of times, or `max`."""
    if text == "max":
        return None
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise SpecError(f"'{text}' is no speed: give a number such as 1 or 10, or max") from None
