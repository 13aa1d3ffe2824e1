"""Many connections at once: whether they all work, and what memory they take."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.common import kvmark
from bench.common.figures import Program
from bench.common.process import Ended, Going
from bench.redis.peers import Job, kvmark_words, redis_benchmark_words


@dataclass(frozen=True)
class Crowd:
    """What a peer did with many connections."""

    peer: str
    operations: int
    #: Operations with an outcome other than ok; none when the peer doesn't count them.
    failures: int | None
    peak_bytes: int


def crowds(programs: Mapping[str, Program], job: Job) -> list[Crowd]:
    """Each peer that is there, once, in the closed model."""
    found = [_kvmark(programs["kvmark"], job)]
    if "redis-benchmark" in programs:
        command = [*programs["redis-benchmark"], *redis_benchmark_words(job), "--csv"]
        peak_bytes = _watched(Going(command, job.core, {}), (0,)).peak_bytes
        found.append(Crowd("redis-benchmark", job.operations, None, peak_bytes))
    return found


def _kvmark(program: Program, job: Job) -> Crowd:
    words = kvmark_words(job, "--load", "never", "--operations", job.operations)
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        going = Going([*program, *words], job.core, {"KVMARK_RUNS": folder})
        ended = _watched(going, kvmark.MEASURED)
        _, totals = kvmark.measured(kvmark.newest_manifest(Path(folder), ended.errors))
    operations = sum(row["count"] for row in totals)
    failures = sum(row["count"] for row in totals if row["outcome"] != "ok")
    return Crowd("kvmark", operations, failures, ended.peak_bytes)


def _watched(going: Going, codes: tuple[int, ...]) -> Ended:
    try:
        going.watch_memory()
        return going.finish(codes)
    finally:
        going.kill()
