"""One run of kvmark in a process of its own, and what its manifest says of the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common.kvmark import MEASURED
from bench.common.process import execute, usable_cores
from bench.common.tools import find_kvmark

from kvmark.records import Records, Run

UNIFORM = str(Path(__file__).resolve().parent / "reads-uniform.yaml")
TIMEOUT_MS = 200
PRECISE_NS = 100_000
"""How near to its intended start an operation must be issued."""


@dataclass(frozen=True)
class Facts:
    """What a run's measured phase says of the engine."""

    operations: int
    seconds: float
    cpu_seconds: float
    max_resident_bytes: int
    #: Share of the operations that were issued within `PRECISE_NS` of their intended start.
    precise_share: float
    #: Share of those that were given up after `TIMEOUT_MS`, within a millisecond of it.
    timely_share: float | None
    response_ns_p99: int | None

    @property
    def rate(self) -> float:
        """Completed operations per second."""
        return self.operations / self.seconds


def facts(words: Sequence[str]) -> Facts:
    """Runs `kvmark run` with these words and reads its manifest.

    Raises:
        PeerFailedError: there is no measurement.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        command = [*find_kvmark(), "run", *words, "--load", "never", "--json", "--quiet"]
        execute(command, usable_cores(), MEASURED, {"KVMARK_RUNS": folder})
        return _facts(Records(Path(folder)).open("last"))


def _facts(run: Run) -> Facts:
    phase = run.counted[0]
    totals = [total for total in run.totals(phase.index) if not total.part]
    waits = [run.times(total, "wait") for total in totals]
    precise = sum(int(wait.count[wait.high <= PRECISE_NS].sum()) for wait in waits)
    given_up = [run.times(total, "service") for total in totals if total.outcome == "timeout"]
    timely = sum(int(one.count[one.high <= (TIMEOUT_MS + 1) * 1e6].sum()) for one in given_up)
    late = sum(int(one.count.sum()) for one in given_up)
    operations = sum(total.count for total in totals)
    most = max(totals, key=lambda total: total.count)
    return Facts(
        operations=operations,
        seconds=phase.window_ns / 1e9,
        cpu_seconds=sum(worker.cpu_ns or 0 for worker in phase.workers) / 1e9,
        max_resident_bytes=phase.process.max_resident_bytes or 0,
        precise_share=precise / operations,
        timely_share=timely / late if late else None,
        response_ns_p99=most.response.p99,
    )
