"""Prints the throughput of a replay at full speed beside that of a run with random operations.

python -m bench.replay [--blocks 10] [--operations 1000000] [--only TEXT] [--results FOLDER]

Both have the same kinds, sizes, number of keys and clients, and on Redis the same commands; the
replay keeps the order of each key. Server and client have a core each. Ratios are geometric means
over the pairs within a block, with a 95 % t-interval on the logarithms.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from bench.common.comparison import CPU, THROUGHPUT, Benchmark, Figures, at_least, cores, say
from bench.common.kvmark import kvmark_load, kvmark_once
from bench.common.peers import Once, twice
from bench.common.servers import serving_redis

from kvmark.analysis.peers import PeerBound, PeerCase
from kvmark.trace.folder import COLUMNS, TraceWriter

HERE: Final = Path(__file__).resolve().parent
REPLAY, DRAWN = "replay", "drawn"
KEYS: Final = 100_000
MOST_CONNECTIONS: Final = 66
REDIS: Final = "redis"
BENCHMARK: Final = Benchmark(
    "bench-replay", "A replay at full speed beside operations drawn by chance", (THROUGHPUT, CPU)
)


class Case(PeerCase):
    """A system and its clients."""

    clients: int
    #: A URL, or the server that is started.
    system: str
    programs: tuple[str, ...] = (REPLAY, DRAWN)
    bounds: tuple[PeerBound, ...] = (at_least(THROUGHPUT, 0.9, DRAWN),)


CASES: Final = (
    Case(name="null, one client", clients=1, system="null:"),
    Case(name="null, 64 clients", clients=64, system="null:?yields=1"),
    Case(name="Redis, 50 clients", clients=50, system=REDIS),
)


def write_trace(path: Path, operations: int) -> None:
    """Operations, half of them reads, on keys that are equally likely."""
    chance = np.random.default_rng(1)
    kinds = np.array(["read", "update"])[chance.integers(0, 2, operations)]
    frame = pl.DataFrame(
        {
            "at_ns": np.arange(operations),
            "client": 0,
            "kind": kinds,
            "statement": "GET {key}",
            "key": chance.integers(0, KEYS, operations).astype(np.uint64) << np.uint64(30),
            "key_size": 20,
            "value_size": 100,
            "ttl_ms": None,
            "items": 1,
        }
    )
    with TraceWriter(path, "a benchmark") as writer:
        writer.add(frame.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items()))
        writer.close(())


def measure(given: argparse.Namespace) -> bool:
    """Starts the server, measures and prints; whether nothing failed."""
    core = given.generator_core
    with (
        serving_redis(cores(given.server_core), MOST_CONNECTIONS) as server,
        tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name,
    ):
        trace = Path(name) / "X.trace"
        say(f"writing a trace of {given.operations:,} operations")
        write_trace(trace, given.operations)

        def words(case: Case, peer: str) -> list[object]:
            is_redis = case.system == REDIS
            drawn = HERE / ("drawn-redis.yaml" if is_redis else "drawn.yaml")
            workload = [trace, "--speed", "max"] if peer == REPLAY else [drawn]
            system = ["--system", server.url if is_redis else case.system]
            return ["run", *workload, *system, "--clients", case.clients, "--pin", core]

        def compared(case: Case, peer: str, block: int) -> Figures:
            asked = [*words(case, peer), "--load", "never", "--seed", given.seed + block]

            def once(operations: int) -> Once:
                return kvmark_once([*asked, "--operations", operations], core)

            return twice(once, given.operations)

        for peer in (REPLAY, DRAWN):
            kvmark_load(words(CASES[-1], peer), core)
        found = BENCHMARK.repetitions(CASES, compared, given)
        system = (
            f"Redis {server.version} on core {given.server_core}, clients on core {core};"
            f" {KEYS:,} keys, {given.operations:,} operations"
        )
    return BENCHMARK.publish(system, CASES, found, given)


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 10, 1_000_000))
