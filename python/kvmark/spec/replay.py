"""How a trace is replayed, as the user asked for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kvmark.errors import SpecError
from kvmark.spec import quantity

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
    scale_keys: float = 1
    """Keys for each that was recorded; below 1, the part of them that is kept."""
    loops: int = 1
    """How often it is replayed, one time behind the other."""

    def __post_init__(self) -> None:
        """Checks the values, each alone and then together."""
        if self.speed is not None and not (math.isfinite(self.speed) and self.speed > 0):
            raise SpecError(f"speed: must be above 0, not {self.speed:g}")
        if not 1 <= self.loops < 1 << 32:
            raise SpecError(f"loop: must be 1 or more, not {self.loops}")
        _check_scale(self.scale_keys)
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            raise SpecError("until: the part of the trace must end behind where it begins")


def is_trace(workload: object) -> bool:
    """Whether the name of a workload is that of a trace."""
    return isinstance(workload, str) and workload.endswith(".trace")


def _check_scale(scale: float) -> None:
    if not (0 < scale < 1 or (1 <= scale < 1 << 32 and scale == int(scale))):
        raise SpecError(
            "scale-keys: must be a whole number of keys for each that was recorded, or the part of"
            f" them that is kept, such as 0.25; not {scale:g}"
        )


def parse_scale_keys(text: str) -> float:
    """How many keys there are for each, as on a command line: a count such as 4, or a fraction."""
    try:
        scale = float(text)
    except ValueError:
        scale = quantity.count(text)
    if not math.isfinite(scale):
        raise SpecError(f"'{text}' is no number of keys: give 4 for each, or a part such as 0.25")
    _check_scale(scale)
    # Whole numbers are written as such, wherever they are kept.
    return int(scale) if scale >= 1 else scale


def parse_speed(text: str) -> float | None:
    """A speed as on a command line: a number of times, or `max`."""
    if text == "max":
        return None
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise SpecError(f"'{text}' is no speed: give a number such as 1 or 10, or max") from None
