"""Prints the cost of CQL for kvmark beside that of other programs, with its bounds.

python -m bench.cql [--blocks 6] [--operations 200000] [--only TEXT] [--results FOLDER]

One Cassandra node has a core to itself, and each client another. Ratios are geometric means over
the pairs within a block, with a 95 % t-interval on the logarithms. A program that isn't available
is named and left out.
"""

from __future__ import annotations

import argparse
from typing import Final

from bench.common import peers
from bench.common.comparison import (
    CPU,
    MEMORY,
    THROUGHPUT,
    Benchmark,
    Figures,
    at_least,
    at_most,
    chosen,
    cores,
    say,
)
from bench.common.servers import serving_cassandra
from bench.common.tools import find
from bench.cql.peers import FIELD_BYTES, FIELDS, FIND, THREADS, VERSIONS, Case, Job, prepare, runs

READERS: Final = ("kvmark", "latte", "YCSB", "bare loop")
READ_BOUNDS: Final = (
    at_most(CPU, 0.3, "latte"),
    at_most(CPU, 0.06, "YCSB"),
    at_most(CPU, 1.8, "bare loop"),
    at_least(THROUGHPUT, 0.9, "latte"),
    at_least(THROUGHPUT, 0.9, "YCSB"),
)
WRITERS: Final = ("kvmark", "cassandra-stress", "cql-stress", "bare loop")
WRITE_BOUNDS: Final = (
    at_most(CPU, 0.2, "cassandra-stress"),
    at_most(CPU, 1.0, "cql-stress"),
    at_most(CPU, 1.2, "bare loop"),
)
CASES: Final = (
    *(
        Case(name=name, programs=READERS, bounds=READ_BOUNDS, clients=64, workload=workload)
        for name, workload in (("read", "reads"), ("read, checked", "reads-checked"))
    ),
    Case(name="stress write", programs=WRITERS, bounds=WRITE_BOUNDS, clients=THREADS),
)
HEAP_MIB: Final = 1024
"""Of each node."""
BENCHMARK: Final = Benchmark(
    "bench-cql",
    "kvmark beside latte, YCSB and cassandra-stress on one Cassandra node",
    (THROUGHPUT, CPU, MEMORY),
    VERSIONS,
)


def measure(given: argparse.Namespace) -> bool:
    """Starts a node, loads and warms it, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: kvmark did not load the rows.
        KvmarkError: the node doesn't start.
    """
    wanted = {name: found for name, found in FIND.items() if name not in given.without}
    programs, missing = find(wanted)
    with serving_cassandra(1, HEAP_MIB, cores(given.server_core)) as testbed:

        def compared(case: Case, peer: str, block: int) -> Figures:
            job = Job.on(testbed, given, case, block)
            return peers.measure(runs(case), programs, job, peer)

        say("loading, and warming the node up")
        for case in chosen(CASES, given):
            prepare(programs, Job.on(testbed, given, case), given.warmup)
        found = BENCHMARK.repetitions(CASES, compared, given, programs)
        system = (
            f"Cassandra {testbed.version} with a heap of {HEAP_MIB} MiB on core"
            f" {given.server_core}, clients on core {given.generator_core}; {given.records:,} rows"
            f" of {FIELDS} columns of {FIELD_BYTES} bytes; {given.operations:,} operations"
        )
    notes = [f"Left out: {sentence}" for sentence in missing]
    return BENCHMARK.publish(system, CASES, found, given, notes)


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 6, 200_000)
    made.add_argument("--warmup", type=int, default=400_000, help="before the first block")
    made.add_argument("--without", action="append", default=[], help="a program; repeatable")
    BENCHMARK.run(measure, made)
