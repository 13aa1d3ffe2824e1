"""Prints the cost of two applications with their published clients, and the generator's memory.

python -m bench.apps [--times 5] [--seconds 20] [--flat-seconds 120] [--only TEXT]
                     [--results FOLDER] [--anyway]

The published report doesn't have the length of its pipelines: by Little's law it was near 480
commands, and a batch had 100 rows. Server and load generator have a core each. The last case runs
on the simulated driver as fast as it goes and compares the generator's memory in the first and the
last tenth of a run.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Final

import polars as pl
from bench.common.comparison import THROUGHPUT, Benchmark, Figures, at_most, chosen, repetition, say
from bench.common.kvmark import kvmark_once, kvmark_run
from bench.common.servers import serving_cassandra, serving_redis

from kvmark.analysis.peers import PeerCase, PeerFigure, PeerRun
from kvmark.experiment.study.warm_up import MOST_ROUNDS, warm_up_servers
from kvmark.records.files import GENERATOR

GENERATOR_CORE, SERVER_CORE = 0, 1
CONNECTIONS: Final = 64
HEAP_MIB: Final = 4096
CPU: Final = PeerFigure(name="client CPU per operation", heading="client CPU ns/op")
MEMORY: Final = PeerFigure(name="memory", heading="memory, MB")
LAST, FIRST = "kvmark, last tenth", "kvmark, first tenth"
FLAT: Final = PeerCase(
    name="flat memory", programs=(LAST, FIRST), bounds=(at_most(MEMORY, 1.05, FIRST),)
)
BENCHMARK: Final = Benchmark(
    "bench-apps",
    "What the sample applications' published clients cost",
    (THROUGHPUT, CPU, MEMORY),
)


class Case(PeerCase):
    """An application with its published clients."""

    #: Commands of a pipeline, or rows of a batch.
    items: int
    application: str
    options: str
    programs: tuple[str, ...] = ("kvmark",)


PIPELINES, BATCHES = "RedisPipelinedKeyValue", "CassandraBatchKeyValue"
OF_REDIS: Final = (
    Case(
        name=f"{PIPELINES}, 24 writers, pipelines of 480",
        items=480,
        application=PIPELINES,
        options="--num_threads_write 24 --num_threads_read 0 --pipeline_length 480",
    ),
    Case(
        name=f"{PIPELINES}, 16 readers, pipelines of 480",
        items=480,
        application=PIPELINES,
        options="--num_threads_write 0 --num_threads_read 16 --pipeline_length 480",
    ),
)
OF_CASSANDRA: Final = Case(
    name=f"{BATCHES}, 32 writers, batches of 100",
    items=100,
    application=BATCHES,
    options="--num_threads_write 32 --num_threads_read 0 --batch_size 100 --num_writes -1",
)


def measure(given: argparse.Namespace) -> bool:
    """Measures on one server after the other; whether nothing failed."""
    measured: list[PeerRun] = []
    systems = []
    if chosen(OF_REDIS, given):
        with serving_redis((SERVER_CORE,), CONNECTIONS) as redis:
            systems.append(f"Redis {redis.version}")
            one = partial(application, redis.url, given)
            measured += BENCHMARK.repetitions(OF_REDIS, one, given)
    if chosen([OF_CASSANDRA], given):
        with serving_cassandra(1, HEAP_MIB, (SERVER_CORE,)) as cassandra:
            systems.append(f"Cassandra {cassandra.version}")
            one = partial(application, cassandra.url, given)

            def load(block: int) -> float:
                return one(OF_CASSANDRA, "kvmark", block)[THROUGHPUT.name]

            # The start and the end of a round take time too.
            longest_s = 2 * MOST_ROUNDS * given.seconds
            warm_up_servers({OF_CASSANDRA.name: load}, longest_s, time.monotonic, say)
            measured += BENCHMARK.repetitions([OF_CASSANDRA], one, given)
    for block in range(given.blocks if chosen([FLAT], given) else 0):
        measured += flat_memory(block, given.flat_seconds)
    system = (
        f"{' and '.join(systems) or 'no server'} on core {SERVER_CORE}, clients on core"
        f" {GENERATOR_CORE}; {FLAT.name}: the simulated driver, on both"
    )
    return BENCHMARK.publish(system, (*OF_REDIS, OF_CASSANDRA, FLAT), measured, given)


def application(url: str, given: argparse.Namespace, case: Case, _: str, __: int) -> Figures:
    """The figures of a run of an application."""
    words = ["app", case.application, *case.options.split(), "--system", url]
    words += ["--run_time", str(given.seconds), "--pin", str(GENERATOR_CORE)]
    once = kvmark_once(words, GENERATOR_CORE, case.items)
    figures = (once.ops_per_s, once.cpu_ns / once.operations, once.peak_bytes / 1e6)
    return dict(zip((THROUGHPUT.name, CPU.name, MEMORY.name), figures, strict=True))


def flat_memory(block: int, seconds: int) -> list[PeerRun]:
    """The generator's memory at both ends of a long run as fast as it goes."""
    words = ["app", "RedisKeyValue", "--system", "sim:?servers=32&mean_us=0"]
    resident: list[int] = []

    def last() -> Figures:
        with kvmark_run([*words, "--run_time", seconds], f"{GENERATOR_CORE},{SERVER_CORE}") as run:
            rows = run.resources.filter(pl.col("node") == GENERATOR).sort("at_wall_ns")
            resident.extend(rows["resident_bytes"].to_list())
        return {MEMORY.name: max(resident[-max(len(resident) // 10, 1) :]) / 1e6}

    def first() -> Figures:
        return {MEMORY.name: max(resident[: max(len(resident) // 10, 1)]) / 1e6}

    found = [repetition(FLAT.name, LAST, block, last)]
    return found + ([repetition(FLAT.name, FIRST, block, first)] if resident else [])


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 5)
    made.add_argument("--seconds", type=int, default=20)
    made.add_argument("--flat-seconds", type=int, default=120)
    BENCHMARK.run(measure, made)
