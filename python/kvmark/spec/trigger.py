"""What pushes a system out of its steady state: a rate for a while, or a fault of a testbed.

rate x2 for 5s              twice the rate
pause primary-1 for 2s      a fault, written without its instant (see `kvmark.spec.faults`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.faults import FaultSpec, parse_fault
from kvmark.spec.suggest import shown

_RATE: Final = re.compile(r"rate\s+x(\d+(?:\.\d+)?)\s+for\s+(\S+)")
_FORM: Final = "write it like 'rate x2 for 5s' or 'pause primary-1 for 2s'"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A disturbance of a limited length."""

    text: str
    length_ns: int
    """0 for a restart at once."""
    factor: float = 1.0
    """Of the rate while it lasts."""

    def fault(self, at_ns: int) -> FaultSpec | None:
        """The fault at an instant of the measurement; None for a rate."""
        return None if self.factor != 1 else parse_fault(f"{at_ns}ns {self.text}")

    def curve(self, rate: float, before_ns: int, after_ns: int) -> str:
        """The text of the rate's curve around it."""
        steps = ((rate, before_ns), (rate * self.factor, self.length_ns), (rate, after_ns))
        return "steps:" + ",".join(f"{each:.3f}/{length_ns}ns" for each, length_ns in steps)


def parse_trigger(text: str) -> Trigger:
    """Reads a trigger.

    Raises:
        SpecError: it isn't one, or has no end.
    """
    text = " ".join(text.split())
    if text.partition(" ")[0] == "rate":
        found = _RATE.fullmatch(text)
        if found is None or float(found[1]) <= 1:
            raise SpecError(f"trigger: {shown(text)} is no higher rate for a while; {_FORM}")
        length_ns = quantity.duration_ns(found[2])
        if length_ns <= 0:
            raise SpecError(f"trigger: {shown(text)} lasts no time; {_FORM}")
        return Trigger(text, length_ns, float(found[1]))
    try:
        fault = parse_fault(f"0s {text}")
    except SpecError as problem:
        reason = problem.message.removeprefix("fault: ").replace("'0s ", "'")
        raise SpecError(f"trigger: {reason.partition('; write')[0]}; {_FORM}") from None
    if fault.end_ns is None:
        raise SpecError(f"trigger: {shown(text)} has no end; say for how long, such as 'for 2s'")
    return Trigger(text, fault.end_ns)
