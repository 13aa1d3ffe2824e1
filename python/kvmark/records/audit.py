"""An audit of another tool's benchmark: what a tap before the server saw of it.

Times are nanoseconds, rates operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LoadModel = Literal["closed", "paced", "open"]
"""Closed: a connection sends when it has its answer. Paced: at set times, but then, too. Open: at
set times, also while earlier requests wait."""


@dataclass(frozen=True, slots=True)
class AnnouncedLoad:
    """What the command's options promise; none if they don't."""

    clients: int | None = None
    records: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class SentLoad:
    """The requests."""

    operations: int
    span_ns: int
    mix: dict[str, float]
    """Shares of the commands, the most frequent first."""
    looked: int
    """Answered reads, and those of them that found nothing."""
    missed: int
    failed: int
    unanswered: int
    keys: float
    population: float | None
    """Keys that the load draws from; none if it doesn't show."""
    key_law: str
    top_share: float
    """Of operations, on the most popular key."""
    key_bytes: int | None
    value_bytes: int | None

    @property
    def hit_ratio(self) -> float | None:
        """Of the answered reads; none without any."""
        return 1 - self.missed / self.looked if self.looked else None

    @property
    def rate(self) -> float:
        """Mean rate."""
        return self.operations * 1e9 / self.span_ns if self.span_ns else 0.0


@dataclass(frozen=True, slots=True)
class ConnectionsRecord:
    """The connections, without those that sent only commands without keys."""

    at_once: int
    """The most between their first request and their last answer."""
    expected: int
    """Those opened or announced, whichever are more."""
    unused_share: float
    """Of the expected ones, with less than a tenth of an equal share of the requests."""
    busiest_share: float
    pipeline: int
    """Outstanding requests after sending, the median; of an open load those sent at once."""
    clients: int | None = None
    """Clients that share the connections, in a protocol whose answers come in any order."""


@dataclass(frozen=True, slots=True)
class PaceRecord:
    """When requests were sent."""

    model: LoadModel
    busy_share: float | None
    """Time of a connection with an outstanding request; none of an open load."""
    interval_ns: float | None
    """Own interval; none if a load has none, or it varies."""
    late_share: float | None
    """Requests sent later than that, by more than 1 ms and an interval, while nothing hindered."""
    late_ns_p99: float | None
    pauses: int
    paused_share: float
    """Of the time, in pauses without an outstanding request."""
    longest_pause_ns: int


@dataclass(frozen=True, slots=True)
class OmissionRecord:
    """Response times with the requests that a closed or paced load left out."""

    service_ns_p50: int
    service_ns_p99: int
    corrected_ns_p50: int
    corrected_ns_p99: int
    stalled_share: float
    """Of an open load's requests, those left out during stalls."""
    longest_ns: int


@dataclass(frozen=True, slots=True)
class DriftRecord:
    """The largest significant drift of a command's rate."""

    command: str
    change: float
    p_value: float
    intervals: int


@dataclass(frozen=True, slots=True)
class ThreadsRecord:
    """Processor time of the command's processes."""

    threads: int
    busiest_share: float
    """Of a core, while the thread had one or needed none."""
    cores: float
    """Cores in use, on average."""


@dataclass(frozen=True, slots=True)
class TapCostRecord:
    """Median round trips in the same minute, to the server and through the tap."""

    direct_ns: int
    tapped_ns: int

    @property
    def added_ns(self) -> int:
        """What the tap adds."""
        return max(0, self.tapped_ns - self.direct_ns)


@dataclass(frozen=True, slots=True)
class ComparedFigures:
    """A command's rate and service times by the tap, and by the tool itself; none if unknown."""

    name: str
    rate: float | None
    p50_ns: float | None
    p99_ns: float | None
    own_rate: float | None = None
    own_p50_ns: float | None = None
    own_p99_ns: float | None = None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The audit of a command."""

    tool: str
    exit_code: int
    interrupted: bool
    announced: AnnouncedLoad
    sent: SentLoad
    connections: ConnectionsRecord
    pace: PaceRecord
    omission: OmissionRecord | None
    """None of an open load."""
    drift: DriftRecord | None
    intervals: int
    """Number of full intervals."""
    threads: ThreadsRecord | None
    tap: TapCostRecord | None
    figures: tuple[ComparedFigures, ...]
    """All commands together first."""
    counterpart: tuple[str, ...] = ()
    """The kvmark command with the same load; empty if none has it."""
