"""Prints the cost of CQL for kvmark beside that of other programs, with its bounds.

python -m bench.cql [--blocks 6] [--operations 200000] [--only TEXT] [--results FOLDER]
python -m bench.cql --clients 10000 [--duration 20]

One Cassandra node has a core to itself, and each client another. Ratios are geometric means over
the pairs within a block, with a 95 % t-interval on the logarithms. A program that isn't available
is named and left out. With --clients there are three nodes and kvmark alone, once over connections
that its clients share and once over thousands of their own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from copy import copy
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
    cores,
    parser,
    repetitions,
    run,
    say,
)
from bench.common.kvmark import drained_s, kvmark_run, outcomes
from bench.common.process import ALL_CORES, raise_file_limit
from bench.common.servers import serving_cassandra
from bench.common.tools import find
from bench.cql.peers import (
    FIELD_BYTES,
    FIELDS,
    FIND,
    HERE,
    THREADS,
    VERSIONS,
    Case,
    Job,
    prepare,
    runs,
)

from kvmark.analysis.external.peers import PeerCase, PeerFigure
from kvmark.testbed.state import Testbed

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

NODES: Final = 3
OWN_CONNECTIONS: Final = 3_000
MANY_BLOCKS: Final = 3
LOADERS: Final = 64
WARMING: Final = 200_000
"""Reads by the loaders before all clients start: until then Java interprets the nodes' code."""
WARMUP: Final = "5s"
"""Work of all clients before the measurement: in the beginning they all ask at once."""
FAILED: Final = PeerFigure(name="failed", heading="failed, %")
P99: Final = PeerFigure(name="response time p99", heading="response time p99, s")
PEAK: Final = PeerFigure(name="peak memory", heading="peak memory, MB")
SHARED, OWN = "shared connections", "own connections"
BENCHMARK: Final = Benchmark(
    "bench-cql",
    "kvmark beside latte, YCSB and cassandra-stress on one Cassandra node",
    (THROUGHPUT, CPU, MEMORY),
    VERSIONS,
)
MANY_CLIENTS: Final = Benchmark(
    "bench-cql-clients",
    "Many clients of kvmark on three Cassandra nodes",
    (THROUGHPUT, FAILED, P99, PEAK),
)


def main() -> int:
    """Measures and prints."""
    made = parser(__doc__, blocks=6, operations=200_000)
    made.add_argument("--warmup", type=int, default=400_000, help="before the first block")
    made.add_argument("--without", action="append", default=[], help="a program; repeatable")
    made.add_argument("--clients", type=int, help=f"this many on {NODES} nodes instead")
    made.add_argument("--duration", type=int, default=20, help="seconds with --clients")
    given = made.parse_args()
    return run(many_clients if given.clients else compare, given)


def compare(given: argparse.Namespace) -> bool:
    """Starts a node, loads and warms it, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: kvmark did not load the rows.
        KvmarkError: the node doesn't start.
    """
    wanted = {name: found for name, found in FIND.items() if name not in given.without}
    programs, missing = find(wanted)
    chosen = [case for case in CASES if given.only in case.name]
    with serving_cassandra(1, HEAP_MIB, cores(given.server_core)) as testbed:

        def job(case: Case, block: int = 0) -> Job:
            node, seed = testbed.nodes[0], given.seed + block
            core, operations = given.generator_core, given.operations
            return Job(case, node.host, node.port, given.records, operations, seed, core)

        def compared(case: Case, peer: str, block: int) -> Figures:
            return peers.measure(runs(case), programs, job(case, block), peer)

        say("loading, and warming the node up")
        for case in chosen:
            prepare(programs, job(case), given.warmup)
        found = repetitions(chosen, compared, given, programs)
        version = testbed.version
    system = (
        f"Cassandra {version} with a heap of {HEAP_MIB} MiB on core {given.server_core}, clients"
        f" on core {given.generator_core}; {rows(given)}; {given.operations:,} operations"
    )
    notes = [f"Left out: {sentence}" for sentence in missing]
    return BENCHMARK.publish(system, chosen, found, given, notes)


def many_clients(given: argparse.Namespace) -> bool:
    """Starts three nodes and runs the clients on them; whether nothing failed.

    Raises:
        PeerFailedError: kvmark did not load the rows.
        KvmarkError: the nodes don't start.
    """
    # The nodes may open as many files as this process.
    raise_file_limit(OWN_CONNECTIONS)
    workers = len(os.sched_getaffinity(0))
    # The smallest number for each worker and node that makes so many in all.
    own = -(-OWN_CONNECTIONS // (workers * NODES))
    names = {f"{given.clients:,} clients, {SHARED}": 1, f"{given.clients:,} clients, {OWN}": own}
    bounds = (at_most(FAILED, 0.1), at_most(PEAK, 1000))
    cases = [PeerCase(name=name, programs=("kvmark",), bounds=bounds) for name in names]
    fewer = copy(given)
    fewer.blocks = min(MANY_BLOCKS, given.blocks)
    with serving_cassandra(NODES, HEAP_MIB, ()) as testbed:
        words: list[object] = ["--records", given.records, "--workers", workers]
        warming = ("--clients", LOADERS, "--load", "always", "--operations", WARMING)
        with kvmark_run(on_nodes(testbed, 1, *words, *warming), ALL_CORES):
            pass
        length = ("--duration", f"{given.duration}s", "--warmup", WARMUP)
        words += ["--clients", given.clients, "--load", "never", *length]

        def measured(case: PeerCase, _: str, __: int) -> Figures:
            return of_clients(on_nodes(testbed, names[case.name], *words))

        found = repetitions(cases, measured, fewer)
        version = testbed.version
    system = (
        f"Cassandra {version}, {NODES} nodes with a heap of {HEAP_MIB} MiB each; nodes and clients"
        f" share the cores; {rows(given)}"
    )
    return MANY_CLIENTS.publish(system, cases, found, given)


def on_nodes(testbed: Testbed, connections: int, *words: object) -> list[object]:
    """A command line with so many connections of each worker to each node."""
    hosts = ",".join(node.address for node in testbed.nodes)
    url = f"cql://{hosts}/ycsb?consistency=one&connections_per_node={connections}"
    return ["run", HERE / "reads.yaml", "--system", url, *words]


def of_clients(words: list[object]) -> Mapping[str, float]:
    """The figures of a run with many clients."""
    with kvmark_run(words, ALL_CORES) as made:
        phase, found = made.counted[0], outcomes(made)
        most = max(made.totals(phase.index), key=lambda total: total.count)
        say(f"{phase.statistics['connections'].after} connections; {dict(found)}")
        figures = (
            found.total() / drained_s(made),
            100 * (1 - found["ok"] / max(found.total(), 1)),
            (most.response.p99 or 0) / 1e9,
            (phase.process.max_resident_bytes or 0) / 1e6,
        )
    names = (THROUGHPUT.name, FAILED.name, P99.name, PEAK.name)
    return dict(zip(names, figures, strict=True))


def rows(given: argparse.Namespace) -> str:
    """The table, in a report's words."""
    return f"{given.records:,} rows of {FIELDS} columns of {FIELD_BYTES} bytes"


if __name__ == "__main__":
    sys.exit(main())
