"""Prints the cost of ten thousand clients in one process, beside a published test's machines.

python -m bench.scale [--clients 10000] [--duration 10] [--nodes 3] [--only TEXT] [--results FOLDER]

Generator and server share this machine: the figures are the generator's memory and its CPU time per
operation, not the system's throughput. A system that fails is named below the table.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib import resources
from typing import Final

from bench.common.comparison import CPU, THROUGHPUT, Benchmark, Figures, say
from bench.common.kvmark import kvmark_run, outcomes
from bench.common.process import ALL_CORES, raise_file_limit
from bench.common.servers import serving_cassandra, serving_redis

from kvmark.analysis.peers import PeerCase, PeerFigure
from kvmark.records import Run
from kvmark.records.model import WorkerRecord

WORKLOAD: Final = ("run", "ycsb/a", "--records", 10_000, "--system")
SIMULATED: Final = "sim:?servers=10000&service=exponential&mean_us=200000"
"""A server for each client: 50,000 operations per second at most, and none waits."""
SERVER_CORE: Final = 1
HEAP_MIB: Final = 1024
LOADERS: Final = 64
WARMING: Final = 100_000
"""Operations of a few clients before all start: until then Java interprets Cassandra's code."""
FAILED: Final = PeerFigure(name="failed", heading="failed, %")
PEAK: Final = PeerFigure(name="peak memory", heading="peak memory, MB")
BENCHMARK: Final = Benchmark("bench-scale", "", (THROUGHPUT, FAILED, CPU, PEAK))

MACHINES: Final = 10
CORES_EACH: Final = 16
"""Virtual processors of each generator machine of the published test."""
TABLES: Final = ("1.1", "2.1")
"""Writes and reads of one copy at LOCAL_ONE."""


class Case(PeerCase):
    """A system."""

    #: Operations of a few clients first, on records that they load; 0 for none.
    warming: int
    #: Of Cassandra.
    nodes: int = 0
    programs: tuple[str, ...] = ("kvmark",)


def measured(given: argparse.Namespace, case: Case) -> Figures:
    """Starts the system, loads it with a few clients, and measures it with all.

    Raises:
        PeerFailedError: there is no measurement.
        KvmarkError: the system doesn't start.
    """
    if case.nodes:
        serving = serving_cassandra(case.nodes, HEAP_MIB, ())
    else:
        serving = serving_redis((SERVER_CORE,), max(given.clients, LOADERS))
    with serving if case.warming else nullcontext() as server:
        words = [*WORKLOAD, server.url if server else SIMULATED]
        if case.warming:
            few = ("--load", "always", "--clients", LOADERS, "--operations", case.warming)
            with kvmark_run([*words, *few], ALL_CORES):
                pass
        length = ("--duration", f"{given.duration}s", "--warmup", "5s")
        all_clients = ("--load", "never", "--clients", given.clients)
        with kvmark_run([*words, *all_clients, *length], ALL_CORES) as made:
            return of_run(made)


def of_run(made: Run) -> Figures:
    """The figures of a run; its CPU time has no polling of idle workers."""
    phase, found = made.counted[0], outcomes(made)
    process, operations = phase.process, max(found.total(), 1)
    cpu_ns = (process.cpu_user_ns or 0) + (process.cpu_system_ns or 0)
    return {
        THROUGHPUT.name: found.total() * 1e9 / phase.window_ns,
        FAILED.name: 100 * (1 - found["ok"] / operations),
        CPU.name: (cpu_ns - sum(map(idle_ns, phase.workers))) / operations / 1e3,
        PEAK.name: (process.max_resident_bytes or 0) / 1e6,
    }


def idle_ns(worker: WorkerRecord) -> int:
    """CPU time of polling; recorded is its elapsed time, in which a core was missing."""
    polled_ns = worker.idle_spin_ns - (worker.waiting_for_core_ns or 0)
    return max(0, min(polled_ns, worker.cpu_ns or 0))


def published(clients: int) -> Iterator[str]:
    """The published figures of a number of clients, in sentences."""
    file = resources.files("kvmark").joinpath("published", "hydra-cassandra-3.0.6.csv")
    for row in csv.DictReader(file.read_text("utf-8").splitlines()):
        if row["table"] in TABLES and int(row["clients"]) == clients:
            rate = float(row["ops_per_s"])
            yield (
                f"Published, {row['operation']} at {clients:,} clients: {rate:,.0f} ops/s from"
                f" {MACHINES} machines of {CORES_EACH} vCPU,"
                f" {MACHINES * CORES_EACH / rate * 1e6:,.0f} µs of vCPU at hand for each operation."
            )


def measure(given: argparse.Namespace) -> bool:
    """Measures every system and prints; whether nothing failed."""
    # Servers may open as many files as this process.
    if advice := raise_file_limit(given.clients):
        say(f"Too few files may be open: {advice}.")
        return False
    cassandra = f"Cassandra, {given.nodes} node{'' if given.nodes == 1 else 's'}"
    cases = [Case(name="simulated", warming=0), Case(name="Redis", warming=1)]
    if given.nodes:
        cases.append(Case(name=cassandra, warming=WARMING, nodes=given.nodes))
    found = BENCHMARK.repetitions(cases, lambda case, *_: measured(given, case), given)
    system = f"generator and system share the cores, {given.duration} s each"
    notes = list(published(given.clients))
    named = replace(BENCHMARK, subject=f"{given.clients:,} clients of kvmark in one process")
    return named.publish(system, cases, found, given, notes)


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 1)
    made.add_argument("--clients", type=int, default=10_000)
    made.add_argument("--duration", type=int, default=10, help="seconds to measure")
    made.add_argument("--nodes", type=int, default=3, help="of Cassandra; 0 to leave it out")
    BENCHMARK.run(measure, made)
