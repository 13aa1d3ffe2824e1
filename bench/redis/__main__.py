"""Prints kvmark's cost and throughput on Redis beside those of other programs, with its bounds.

python -m bench.redis [--blocks 10] [--operations 200000] [--only TEXT] [--results FOLDER]

Server and client have a core each. Ratios are geometric means over the pairs within a block, with a
95 % t-interval on the logarithms. A program that isn't available is named and left out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Final

from bench.common import peers
from bench.common.comparison import (
    CPU,
    THROUGHPUT,
    Benchmark,
    Figures,
    at_least,
    at_most,
    chosen,
    cores,
    say,
)
from bench.common.process import PeerFailedError, raise_file_limit
from bench.common.servers import serving_redis
from bench.common.tools import find
from bench.redis.peers import FIND, LOAD, RUN, VALUE_BYTES, VERSIONS, Case, Job
from bench.redis.special import BLOCKS, CONNECTIONS, PAUSE, SPECIAL, SPECIAL_FIGURES, counters

STRINGS: Final = ("kvmark", "redis-benchmark", "resp-benchmark")
# Pipelines need many more operations, which takes the others too long.
FASTEST: Final = STRINGS[:2]
HASHES: Final = ("kvmark", "YCSB", "go-ycsb")
AS_FAST: Final = at_least(THROUGHPUT, 0.97, "redis-benchmark")
GET: Final = (at_most(CPU, 0.65, "redis-benchmark"), at_most(CPU, 1.15, "bare epoll loop"), AS_FAST)
SET: Final = (at_most(CPU, 1.0, "redis-benchmark"), AS_FAST)
YCSB: Final = (at_most(CPU, 0.5, "YCSB"),)
CASES: Final = (
    Case(name="GET", workload="get", programs=(*STRINGS, "bare epoll loop"), bounds=GET),
    Case(name="SET", workload="set", programs=STRINGS, bounds=SET),
    *(
        Case(
            name=f"{workload.upper()}, depth {depth}",
            workload=workload,
            programs=FASTEST,
            bounds=(at_most(CPU, limit, "redis-benchmark"),),
            pipeline_depth=depth,
            factor=factor,
        )
        for depth, factor, limit in ((16, 8, 1.2), (128, 16, 0.8))
        for workload in ("get", "set")
    ),
    # Java compiles while it runs: the more --operations, the less of that is in YCSB's figure.
    Case(name="YCSB C", workload="ycsb-c", programs=HASHES, bounds=YCSB),
    Case(name="YCSB A", workload="ycsb-a", programs=HASHES, bounds=YCSB),
)
BENCHMARK: Final = Benchmark(
    "bench-redis",
    "kvmark beside redis-benchmark, resp-benchmark, a bare epoll loop, YCSB and go-ycsb",
    (THROUGHPUT, CPU, *SPECIAL_FIGURES),
    VERSIONS,
)


def measure(given: argparse.Namespace) -> bool:
    """Starts the server, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: the keys can't be loaded.
        KvmarkError: the server doesn't start.
    """
    # The server may open as many files as this process.
    advice = raise_file_limit(CONNECTIONS.clients)
    with serving_redis(cores(given.server_core), CONNECTIONS.clients) as server:
        programs, missing = find(FIND)
        notes = [f"Left out: {sentence}" for sentence in missing]
        if advice:
            notes.append(f"{CONNECTIONS.name}: left out; {advice}.")

        def job(case: Case, block: int = 0) -> Job:
            plain = Job.on(server, given, case, block)
            return replace(plain, operations=plain.operations * case.factor)

        def compared(case: Case, peer: str, block: int) -> Figures:
            before = counters(server)
            figures = peers.measure(RUN, programs, job(case, block), peer)
            misses, errors = (a - b for a, b in zip(counters(server)[1:], before[1:], strict=True))
            if misses or errors:
                raise PeerFailedError(f"the server counted {misses} misses and {errors} errors")
            return figures

        def special(case: Case, peer: str, _: int) -> Figures:
            return SPECIAL[case.name](server, programs, job(case), peer)

        say("loading")
        loads = {
            (peer, case.has_hashes): case
            for case in reversed([CASES[0], *chosen(CASES, given)])
            for peer in case.programs
            if peer in LOAD and peer in programs
        }
        for (peer, _), case in loads.items():
            LOAD[peer](programs[peer], job(case))
        found = BENCHMARK.repetitions(CASES, compared, given, programs)
        others = [PAUSE] if advice else [PAUSE, CONNECTIONS]
        blocks = min(BLOCKS, given.blocks)
        found += BENCHMARK.repetitions(others, special, given, programs, blocks)
        system = (
            f"Redis {server.version} on core {given.server_core}, clients on core"
            f" {given.generator_core}; {given.records:,} keys, values of {VALUE_BYTES} bytes,"
            f" {given.operations:,} operations, more with pipelining"
        )
    return BENCHMARK.publish(system, (*CASES, CONNECTIONS, PAUSE), found, given, notes)


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 10, 200_000))
