"""What a source reads of a server at an instant."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import RLock
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.spec.observe import ServerSource

TIMEOUT_S: Final = 2.0
"""The limit of an answer. A sample that comes later is missing."""
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """The counters of a server or of its whole machine; None for unknown ones."""

    at_wall_ns: int
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    resident_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_sent_bytes: int | None = None
    network_received_bytes: int | None = None
    gc_count: int | None = None
    gc_time_s: float | None = None
    compactions: int | None = None
    """Completed ones."""
    evicted_keys: int | None = None
    cores: int | None = None
    """The number of cores that it can use."""
    busiest_core: float | None = None
    """The share of its time that the busiest core worked since the sample before."""

    @classmethod
    def of(cls, at_wall_ns: int, values: Mapping[str, float], **more: float | None) -> ServerSample:
        """The sample of values by field; all but seconds are whole numbers.

        Raises:
            SystemUnderTestError: a value isn't finite.
        """
        if not all(map(math.isfinite, values.values())):
            raise SystemUnderTestError("answers with an impossible number")
        typed = {name: v if name.endswith("_s") else int(v) for name, v in values.items()}
        return cls(at_wall_ns=at_wall_ns, **typed, **more)  # type: ignore[arg-type]


class Source(ABC):
    """The source of a server's samples."""

    def __init__(self, source: ServerSource) -> None:
        self.name = source.name
        self.text = str(source.place)
        """The source without credentials."""
        self._lock = RLock()

    @abstractmethod
    def read(self) -> ServerSample:
        """The server's counters now.

        Raises:
            SystemUnderTestError: it doesn't answer in time, or with something else; begins with
                the verb.
        """

    def close(self) -> None:  # noqa: B027 - most have no connection
        """Ends the connection."""

    def row(self) -> dict[str, Any] | None:
        """A row of `resources`; None without an answer."""
        # The run before may still wait for its last sample.
        with suppress(SystemUnderTestError), self._lock:
            return {**asdict(self.read()), "node": self.name, "machine_cpu_percent": None}
        return None


class CoreTimes:
    """The seconds that each core worked, from which comes how busy the busiest one is."""

    def __init__(self) -> None:
        self._before: tuple[int, Mapping[str, float]] = 0, {}

    def busiest(self, at_wall_ns: int, worked_s: Mapping[str, float]) -> float | None:
        """The highest share of a core since the last call; None at the first."""
        before_ns, before_s = self._before
        self._before = at_wall_ns, worked_s
        gains = [worked_s[core] - before_s[core] for core in worked_s.keys() & before_s.keys()]
        if not gains or at_wall_ns <= before_ns:
            return None
        return min(max(0.0, max(gains) * _NS_PER_S / (at_wall_ns - before_ns)), 1.0)


def middle_ns(begun_wall_ns: int) -> int:
    """The instant in the middle of a request, at which a server read its counters."""
    return (begun_wall_ns + time.time_ns()) // 2
