"""Many connections, and a server that pauses.

Memory added by connections is the peak of a run with all of them, less that of a run with one.

A pause has a closed form. Operations are due at a constant rate r for T seconds. The server, which
can do m of them a second, pauses for S seconds and is fast otherwise. An operation that is due u
seconds into the pause has r·u operations before it and ends S + r·u / m after the pause began, so
its response time is S - u·(1 - r/m). That holds while it is above 0, after the pause too, while the
backlog shrinks: for S / (1 - r/m) seconds of T. Other response times are next to nothing. Response
times above x > 0 are therefore a share (S - x) / ((1 - r/m)·T) of all, and the quantile of q is

    S - (1 - q)·(1 - r/m)·T
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Final

from bench.common.comparison import Figures, at_most
from bench.common.kvmark import kvmark_run, outcomes
from bench.common.process import LOOK_S, PeerFailedError, Program, execute
from bench.redis.peers import Case, Job, kvmark_words, redis_benchmark_words, run_kvmark

from kvmark.analysis.peers import PeerFigure
from kvmark.testbed.console import connect
from kvmark.testbed.control import pause_node, resume_node
from kvmark.testbed.redis import info_fields
from kvmark.testbed.state import Testbed

ADDED: Final = PeerFigure(name="memory added", heading="memory added, MB")
FAILED: Final = PeerFigure(name="failed operations", heading="failed")
P999: Final = PeerFigure(name="p99.9", heading="p99.9, ms")
OFF: Final = PeerFigure(name="p99.9 off its closed form", heading="off its closed form, %")
SPECIAL_FIGURES: Final = (ADDED, FAILED, P999, OFF)
PROGRAMS: Final = ("kvmark", "redis-benchmark")
CONNECTIONS: Final = Case(
    name="10,000 connections",
    programs=PROGRAMS,
    bounds=(at_most(ADDED, 40), at_most(FAILED, 0)),
    workload="get",
    clients=10_000,
)
PAUSE: Final = Case(name="stall", programs=PROGRAMS, bounds=(at_most(OFF, 3),), workload="get")
BLOCKS: Final = 3
PAUSE_S: Final = 1.0
RUN_S: Final = 10.0
SHARE: Final = 0.5
"""Of the maximum rate."""
QUANTILE: Final = 0.999
SET_UP: Final = ("cmdstat_client", "cmdstat_hello", "cmdstat_config")
REJECTED: Final = re.compile(r"(?:rejected|failed)_calls=(\d+)")


def counters(testbed: Testbed) -> tuple[int, int, int]:
    """The commands, misses and errors that the server has counted; asking counts too."""
    console = connect(testbed, testbed.nodes[0])
    facts = info_fields(console.ask("INFO", "stats"))
    commands = info_fields(console.ask("INFO", "commandstats"))
    # A program may set connections up with commands that this server doesn't know.
    used = (text for name, text in commands.items() if not name.startswith(SET_UP))
    errors = sum(int(count) for text in used for count in REJECTED.findall(text))
    return int(facts["total_commands_processed"]), int(facts["keyspace_misses"]), errors


def with_connections(_: Testbed, programs: Mapping[str, Program], job: Job, peer: str) -> Figures:
    """The memory that connections add, and failed operations if the program counts them."""
    alone = replace(job, case=job.case.model_copy(update={"clients": 1}))
    if peer == "kvmark":
        many, one = kvmark_peak(job), kvmark_peak(alone)
        return {ADDED.name: (many[0] - one[0]) / 1e6, FAILED.name: many[1]}
    ended = [
        execute([*programs[peer], *redis_benchmark_words(each), "--csv"], job.cores, watched=True)
        for each in (job, alone)
    ]
    return {ADDED.name: (ended[0].peak_bytes - ended[1].peak_bytes) / 1e6}


def kvmark_peak(job: Job) -> tuple[int, int]:
    """The generator's peak memory, and its failed operations."""
    words = kvmark_words(job, "--load", "never", "--operations", job.operations)
    with kvmark_run(words, job.cores) as run:
        found = outcomes(run)
        return run.counted[0].process.max_resident_bytes or 0, found.total() - found["ok"]


def with_pause(testbed: Testbed, programs: Mapping[str, Program], job: Job, peer: str) -> Figures:
    """The 99.9th percentile of a run in which the server pauses.

    Raises:
        PeerFailedError: it ended before the pause, or with an error.
    """
    maximum = run_kvmark((), job).ops_per_s
    if peer == "kvmark":
        rate = round(maximum * SHARE)
        words = kvmark_words(job, "--load", "never", "--rate", rate, "--duration", f"{RUN_S:g}s")
        with paused(testbed, round(rate * RUN_S)) as pauses, kvmark_run(words, job.cores) as run:
            totals = run.totals(run.counted[0].index)
            p999_s = (max(totals, key=lambda total: total.count).response.p999 or 0) / 1e9
        expected_s = closed_form_s(pauses[0], rate / maximum, RUN_S)
        return {P999.name: p999_s * 1e3, OFF.name: 100 * abs(p999_s / expected_s - 1)}
    # It has no rate: it goes as fast as it can for as long.
    job = replace(job, operations=round(maximum * RUN_S))
    with paused(testbed, job.operations):
        ended = execute([*programs[peer], *redis_benchmark_words(job)], job.cores)
    lines = re.findall(r"^([0-9.]+)% <= ([0-9.]+) milliseconds", ended.output, re.MULTILINE)
    reached = [float(ms) for percent, ms in lines if float(percent) >= 100 * QUANTILE]
    if not reached:
        raise PeerFailedError("redis-benchmark printed no percentiles")
    return {P999.name: reached[0]}


def closed_form_s(pause_s: float, load: float, run_s: float) -> float:
    """The quantile of response time, in seconds; the load is the share r/m."""
    return pause_s - (1 - QUANTILE) * (1 - load) * run_s


@contextmanager
def paused(testbed: Testbed, operations: int) -> Iterator[list[float]]:
    """Pauses the server after a third of the operations; the list gets the length in seconds.

    Raises:
        PeerFailedError: the work ended before.
    """
    before, ended, lengths = counters(testbed)[0], Event(), list[float]()

    def pause() -> None:
        while counters(testbed)[0] - before <= operations // 3:
            if ended.wait(LOOK_S):
                return
        pause_node(testbed, testbed.nodes[0].name)
        begun = time.monotonic()
        try:
            time.sleep(PAUSE_S)
        finally:
            lengths.append(time.monotonic() - begun)
            resume_node(testbed, testbed.nodes[0].name)

    with ThreadPoolExecutor(1) as threads:
        pausing = threads.submit(pause)
        try:
            yield lengths
        finally:
            ended.set()
        pausing.result()
    if not lengths:
        raise PeerFailedError("a program ended before the server was to pause")


SPECIAL: Final[Mapping[str, Callable[[Testbed, Mapping[str, Program], Job, str], Figures]]] = {
    CONNECTIONS.name: with_connections,
    PAUSE.name: with_pause,
}
