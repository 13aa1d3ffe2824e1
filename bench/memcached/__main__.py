"""Prints the cost of a get of memcached for kvmark, beside a bare epoll loop.

python -m bench.memcached [--blocks 10] [--operations 1000000] [--only TEXT] [--results FOLDER]

Server and client have a core each. Ratios are geometric means over the pairs within a block, with a
95 % t-interval on the logarithms.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from bench.common import peers
from bench.common.comparison import CPU, THROUGHPUT, Benchmark, Figures, at_most, cores
from bench.common.kvmark import kvmark_load, kvmark_once
from bench.common.peers import Once
from bench.common.process import PeerFailedError, Program
from bench.common.servers import serving_memcached
from bench.common.tools import KVMARK, find, find_example

from kvmark.analysis.peers import PeerBound, PeerCase
from kvmark.testbed.console import connect
from kvmark.testbed.memcached import stats
from kvmark.testbed.state import Testbed

BARE: Final = "bare epoll loop"
CLIENTS: Final = 50
BENCHMARK: Final = Benchmark(
    "bench-memcached", "kvmark beside a bare loop on one memcached", (THROUGHPUT, CPU)
)


class Case(PeerCase):
    """A workload of kvmark beside the bare loop."""

    workload: str
    programs: tuple[str, ...] = ("kvmark", BARE)
    bounds: tuple[PeerBound, ...] = (at_most(CPU, 1.2, BARE),)


Job: TypeAlias = peers.Job[Case]
CHECKED: Final = Case(
    name="get, values checked", workload=str(Path(__file__).with_name("get-checked.yaml"))
)
CASES: Final = (Case(name="get", workload="memcached/get"), CHECKED)


def misses(server: Testbed) -> int:
    """Reads of missing keys since the server started."""
    return int(stats(connect(server, server.nodes[0]))["get_misses"])


def kvmark_words(job: Job) -> list[object]:
    """A command line without its length."""
    url = f"memcached://{job.host}:{job.port}"
    words: list[object] = ["run", job.case.workload, "--system", url, "--records", job.records]
    return [*words, "--clients", CLIENTS, "--pin", job.cores, "--seed", job.seed]


def run_kvmark(_: Program, job: Job) -> Once:
    """A run of kvmark."""
    words = kvmark_words(job)
    return kvmark_once([*words, "--load", "never", "--operations", job.operations], job.cores)


def run_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark."""
    return peers.bare(program, job, connections=CLIENTS)[0]


RUN: Final[Mapping[str, Callable[[Program, Job], Once]]] = {"kvmark": run_kvmark, BARE: run_bare}


def measure(given: argparse.Namespace) -> bool:
    """Starts the server, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: the records can't be loaded.
        KvmarkError: the server doesn't start.
    """
    example = partial(find_example, "kvmark-driver-memcached", "bare_memcached")
    programs, missing = find({"kvmark": lambda: KVMARK, BARE: example})
    with serving_memcached(cores(given.server_core)) as server:

        def compared(case: Case, peer: str, block: int) -> Figures:
            before = misses(server)
            figures = peers.measure(RUN, programs, Job.on(server, given, case, block), peer)
            if missed := misses(server) - before:
                raise PeerFailedError(f"the server counted {missed} misses")
            return figures

        kvmark_load(kvmark_words(Job.on(server, given, CHECKED)), given.generator_core)
        found = BENCHMARK.repetitions(CASES, compared, given, programs)
        system = (
            f"memcached {server.version} with one thread on core {given.server_core}, clients on"
            f" core {given.generator_core}; {given.records:,} keys, {given.operations:,} operations"
        )
    return BENCHMARK.publish(system, CASES, found, given, missing) and not missing


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 10, 1_000_000))
