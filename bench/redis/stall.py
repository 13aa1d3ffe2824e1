"""A server that stands still for a while: what was due meanwhile waits, and who reports it.

The closed form. Operations are due at a constant rate r for T seconds. The server, which can do m
of them a second, stands still for S seconds and is fast otherwise. What is due u seconds into the
stall has r·u before it and is done S + r·u / m after the stall began, so its response time is
S - u·(1 - r/m). That holds as long as it is above 0, after the stall too, while the backlog
shrinks: for S / (1 - r/m) seconds of the T. Elsewhere it is next to nothing. Response times above
x > 0 are therefore a share (S - x) / ((1 - r/m)·T) of all, and the quantile of q is

    S - (1 - q)·(1 - r/m)·T
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.common import kvmark
from bench.common.figures import Program
from bench.common.process import LOOK_S, Ended, Going, PeerFailedError
from bench.redis.cases import STALL_RUN_S, STALL_S, STALL_SHARE
from bench.redis.peers import Job, kvmark_words, redis_benchmark_words, run_kvmark
from bench.redis.server import Server

QUANTILE = 0.999


@dataclass(frozen=True)
class Stalled:
    """What a peer reported of a run with a stall."""

    peer: str
    #: What the peer calls its p99.9, in seconds.
    p999_s: float
    #: What response time's p99.9 must be; none for a peer that has no intended starts.
    expected_s: float | None


def closed_form_s(stall_s: float, load: float, run_s: float) -> float:
    """The quantile of response time, in seconds; the load is the share r/m."""
    return stall_s - (1 - QUANTILE) * (1 - load) * run_s


def stalls(server: Server, programs: Mapping[str, Program], job: Job) -> list[Stalled]:
    """Each peer that is there, once.

    Raises:
        PeerFailedError: a peer ended before the server was stopped, or badly.
    """
    maximum = run_kvmark(programs["kvmark"], job).ops_per_s
    found = [_kvmark(server, programs["kvmark"], job, maximum)]
    if "redis-benchmark" in programs:
        found.append(_redis_benchmark(server, programs["redis-benchmark"], job, maximum))
    return found


def _kvmark(server: Server, program: Program, job: Job, maximum: float) -> Stalled:
    rate = round(maximum * STALL_SHARE)
    words = kvmark_words(job, "--load", "never", "--rate", rate, "--duration", f"{STALL_RUN_S:g}s")
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        command = [*program, *words]
        going = Going(command, job.core, {"KVMARK_RUNS": folder})
        ended, stood_s = _stalled(server, going, round(rate * STALL_RUN_S), kvmark.MEASURED)
        _, totals = kvmark.measured(kvmark.newest_manifest(Path(folder), ended.errors))
    most = max(totals, key=lambda row: row["count"])
    expected_s = closed_form_s(stood_s, rate / maximum, STALL_RUN_S)
    return Stalled("kvmark", most["response"]["p999"] / 1e9, expected_s)


def _redis_benchmark(server: Server, program: Program, job: Job, maximum: float) -> Stalled:
    """It has no rate: it goes as fast as it can for as long."""
    job = replace(job, operations=round(maximum * STALL_RUN_S))
    going = Going([*program, *redis_benchmark_words(job)], job.core, {})
    ended, _ = _stalled(server, going, job.operations, (0,))
    lines = re.findall(r"^([0-9.]+)% <= ([0-9.]+) milliseconds", ended.output, re.MULTILINE)
    reached = [float(ms) for percent, ms in lines if float(percent) >= 100 * QUANTILE]
    if not reached:
        raise PeerFailedError("redis-benchmark printed no percentiles")
    return Stalled("redis-benchmark", reached[0] / 1e3, None)


def _stalled(
    server: Server, going: Going, operations: int, codes: tuple[int, ...]
) -> tuple[Ended, float]:
    """Stops the server when it has done a third of the work; also how long it stood."""
    try:
        begun = server.counters().commands
        _wait(lambda: server.counters().commands - begun > operations // 3, going)
        stood_s = server.stall(STALL_S)
        return going.finish(codes), stood_s
    finally:
        going.kill()


def _wait(condition: Callable[[], bool], going: Going) -> None:
    while not condition():
        if going.ended():
            going.finish()
            raise PeerFailedError("a peer ended before the server was to stand still")
        time.sleep(LOOK_S)
