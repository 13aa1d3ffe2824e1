"""What every kind of system in a testbed can be asked, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kvmark.testbed.state import Node, Testbed

__all__ = ["Meter", "System"]


class Meter(Protocol):
    """Asks one server what only it knows of itself."""

    def network_bytes(self) -> tuple[int, int] | None:
        """Bytes sent and received since it started; None when it doesn't answer at once."""
        ...

    def close(self) -> None:
        """Lets go of the server."""
        ...


@dataclass(frozen=True, slots=True)
class System:
    """One kind of system."""

    name: str
    wait_for_answer: Callable[[Testbed, Node, float], None]
    """Waits, up to so many seconds, until a server answers for itself."""
    wait_for_node: Callable[[Testbed, Node, float], None]
    """Waits, up to so many seconds, until a server does its work together with the others."""
    describe: Callable[[Testbed], Mapping[str, Any]]
    """Version, effective settings and their fingerprint, for a manifest; no secret in it."""
    meter: Callable[[Testbed, Node], Meter]
    own_files: re.Pattern[str]
    """Paths within a testbed's folder that its servers or kvmark make."""
