"""What is measured of a peer, and the bounds on it.

A peer does a case twice, once with a tenth of the operations: what the longer run took more of user
and system time, divided by what it did more of operations, is the client's processor time per
operation. Starting, connecting and closing are in both and cancel; of kvmark they are in neither,
because its records say what was used in the measured phase.
Throughput is what the peer says itself of the longer run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.common.process import PeerFailedError

SHORT = 10
"""How many times fewer operations the shorter run has."""

Program = Sequence[str]
"""The beginning of a peer's command line."""


@dataclass(frozen=True)
class Once:
    """What one run of a peer did, and what it cost from start to end."""

    operations: int
    ops_per_s: float
    cpu_ns: int
    #: 0 where its memory was not watched.
    peak_bytes: int = 0


@dataclass(frozen=True)
class Measured:
    """A peer's figures in one case of one block."""

    ops_per_s: float
    cpu_ns_per_operation: float
    #: 0 where its memory was not watched.
    peak_bytes: int = 0


@dataclass(frozen=True)
class Figure:
    """One of those figures as the table shows it."""

    name: str
    head: str
    of: Callable[[Measured], float]


THROUGHPUT = Figure("throughput", "ops/s", lambda measured: measured.ops_per_s)
CPU = Figure(
    "client CPU per operation",
    "client CPU µs/op",
    lambda measured: measured.cpu_ns_per_operation / 1e3,
)
MEMORY = Figure("peak memory", "peak MB", lambda measured: measured.peak_bytes / 1e6)


@dataclass(frozen=True)
class Bound:
    """What kvmark is held to, as a ratio to a peer's figure."""

    peer: str
    figure: Figure
    limit: float
    #: Whether the ratio must not be above the limit; else it must not be below.
    most: bool = True


class Compared(Protocol):
    """A case, as far as its table goes; kvmark is the first of its peers."""

    @property
    def name(self) -> str:
        """What the table calls it."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Who does it."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What kvmark is held to."""


def cost(short: Once, long: Once) -> Measured:
    """A peer's figures from its shorter and its longer run.

    Raises:
        PeerFailedError: the longer run took no more time.
    """
    spent_ns = long.cpu_ns - short.cpu_ns
    if spent_ns <= 0:
        raise PeerFailedError("too few operations to see their cost: give more --operations")
    each_ns = spent_ns / (long.operations - short.operations)
    return Measured(long.ops_per_s, each_ns, long.peak_bytes)
