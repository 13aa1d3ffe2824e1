"""Many connections at once: whether they all work, and what memory they add.

What they add is the most memory that the process held while it measured with all of them, less
what it held with one, for the same operations of the same workload. kvmark records itself what the
process that generates load held.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.common import kvmark
from bench.common.figures import Program
from bench.common.process import execute
from bench.redis.peers import Job, kvmark_words, redis_benchmark_words


@dataclass(frozen=True)
class Held:
    """What a peer did with some connections, and the most memory it held meanwhile."""

    operations: int
    #: Operations with an outcome other than ok; none when the peer doesn't count them.
    failures: int | None
    peak_bytes: int


@dataclass(frozen=True)
class Crowd:
    """A peer with many connections, beside itself with one."""

    peer: str
    many: Held
    one: Held

    @property
    def added_bytes(self) -> int:
        """What all connections but one add to its memory."""
        return self.many.peak_bytes - self.one.peak_bytes


def crowds(programs: Mapping[str, Program], job: Job) -> list[Crowd]:
    """Each peer that is there, in the closed model."""
    alone = replace(job, case=replace(job.case, clients=1))
    return [
        Crowd(peer, many=hold(programs[peer], job), one=hold(programs[peer], alone))
        for peer, hold in HOLD.items()
        if peer in programs
    ]


def hold_kvmark(program: Program, job: Job) -> Held:
    """As kvmark says of the measured phase."""
    words = kvmark_words(job, "--load", "never", "--operations", job.operations)
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        ended = execute([*program, *words], job.core, kvmark.MEASURED, {"KVMARK_RUNS": folder})
        phase, totals = kvmark.measured(kvmark.newest_manifest(Path(folder), ended.errors))
    operations = sum(row["count"] for row in totals)
    failures = sum(row["count"] for row in totals if row["outcome"] != "ok")
    return Held(operations, failures, phase["process"]["max_resident_bytes"])


def hold_redis_benchmark(program: Program, job: Job) -> Held:
    """The process's own peak: it does nothing behind its operations."""
    command = [*program, *redis_benchmark_words(job), "--csv"]
    ended = execute(command, job.core, watched=True)
    return Held(job.operations, None, ended.peak_bytes)


HOLD: Mapping[str, Callable[[Program, Job], Held]] = {
    "kvmark": hold_kvmark,
    "redis-benchmark": hold_redis_benchmark,
}
