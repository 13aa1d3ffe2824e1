"""What is compared, and one run of it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.common.figures import Bound


@dataclass(frozen=True)
class Case:
    """What is compared between peers."""

    name: str
    peers: tuple[str, ...]
    bounds: tuple[Bound, ...]
    #: Operations in flight.
    clients: int
    #: What kvmark is told to do, the others read without checking; none for `stress write`.
    workload: str | None = None


@dataclass(frozen=True)
class Job:
    """One run of a case."""

    case: Case
    host: str
    port: int
    records: int
    operations: int
    seed: int
    cores: str
