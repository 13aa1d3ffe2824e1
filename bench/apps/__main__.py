"""Prints what the published clients of two applications cost the load generator, and its memory.

python -m bench.apps [--times 5] [--seconds 20] [--flat-seconds 120] [--only TEXT]
                     [--results FOLDER] [--anyway]

The published report doesn't tell its pipeline's length: by Little's law it was near 480 commands,
and the batch 100 rows. Server and load generator have a core each. The last case runs on the
simulated driver as fast as it goes: what its memory grows by from the first tenth of a run to the
last, which a longer run tells more surely from filling.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from bench.common import kvmark
from bench.common.console import carried_out, publish, repeating, say
from bench.common.process import PeerFailedError, execute
from bench.common.table import attempt, peers_of
from bench.common.tools import find_kvmark
from bench.cql.server import serving as serving_cassandra
from bench.redis.server import serving as serving_redis

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun, Peers
from kvmark.errors import SystemUnderTestError
from kvmark.experiment.designs.matrix.warm_up import MOST_ROUNDS, warmed_up
from kvmark.records.files import GENERATOR

GENERATOR_CORE, SERVER_CORE = 0, 1
CONNECTIONS: Final = 64
HEAP_MIB: Final = 4096
THROUGHPUT: Final = PeerFigure(name="throughput", heading="ops/s")
CPU: Final = PeerFigure(name="client CPU per operation", heading="client CPU ns/op")
MEMORY: Final = PeerFigure(name="memory", heading="memory, MB")
FLAT: Final = "flat memory"
LAST, FIRST = "kvmark, last tenth", "kvmark, first tenth"
GROWN_MOST: Final = 1.05


@dataclass(frozen=True, slots=True)
class Case:
    """An application with its published clients."""

    title: str
    #: Commands of a pipeline, or rows of a batch.
    items: int
    words: tuple[str, ...]

    @property
    def is_redis(self) -> bool:
        """Whether its server speaks the Redis protocol."""
        return self.words[0].startswith("Redis")


CASES: Final = (
    Case(
        "RedisPipelinedKeyValue, 24 writers, pipelines of 480",
        480,
        ("RedisPipelinedKeyValue", "--num_threads_write", "24", "--num_threads_read", "0",
         "--pipeline_length", "480"),
    ),
    Case(
        "RedisPipelinedKeyValue, 16 readers, pipelines of 480",
        480,
        ("RedisPipelinedKeyValue", "--num_threads_write", "0", "--num_threads_read", "16",
         "--pipeline_length", "480"),
    ),
    Case(
        "CassandraBatchKeyValue, 32 writers, batches of 100",
        100,
        ("CassandraBatchKeyValue", "--num_threads_write", "32", "--num_threads_read", "0",
         "--batch_size", "100", "--num_writes", "-1"),
    ),
)  # fmt: skip


def main() -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a run or a server failed."""
    parser = repeating(__doc__, 5, "case is run")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--flat-seconds", type=int, default=120)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    given = parser.parse_args()
    return carried_out(lambda: _measure(given), anyway=given.anyway)


def _measure(given: argparse.Namespace) -> bool:
    cases = [case for case in CASES if given.only in case.title]
    of_redis = [case for case in cases if case.is_redis]
    of_cassandra = [case for case in cases if not case.is_redis]
    measured: list[PeerRun] = []
    systems = []
    # One server after the other: what one does behind its clients' backs isn't the other's.
    if of_redis:
        with serving_redis(SERVER_CORE, CONNECTIONS) as redis:
            systems.append(f"Redis {redis.version}")
            measured += _blocks(of_redis, redis.testbed.url, given)
    if of_cassandra:
        with serving_cassandra(1, HEAP_MIB, (SERVER_CORE,)) as cassandra:
            systems.append(f"Cassandra {cassandra.version}")
            loads = {
                case.title: partial(_round, case, cassandra.url, given) for case in of_cassandra
            }
            # A round's start and end take their time too.
            warmed_up(loads, 2 * MOST_ROUNDS * given.seconds, time.monotonic, say)
            measured += _blocks(of_cassandra, cassandra.url, given)
    for block in range(given.times if given.only in FLAT else 0):
        measured += _flat(block, given.flat_seconds)
        say(f"{block + 1}/{given.times}  {FLAT}: {[one.figures for one in measured[-2:]]}")
    peers = _peers(" and ".join(systems) or "no server", measured)
    publish(peers, "bench-apps", given.results)
    return not any(one.failed for one in measured)


def _blocks(cases: Sequence[Case], url: str, given: argparse.Namespace) -> Iterator[PeerRun]:
    for block in range(given.times):
        for case in cases:
            one = _case(case, block, url, given.seconds)
            say(f"{block + 1}/{given.times}  {case.title}: {one.figures or one.failed}")
            yield one


def _round(case: Case, url: str, given: argparse.Namespace, number: int) -> float:
    """How fast a case was in a round of the server's warm-up.

    Raises:
        SystemUnderTestError: it failed.
    """
    one = _case(case, number, url, given.seconds)
    if one.figures is None:
        raise SystemUnderTestError(one.failed or "nothing was measured")
    return one.figures[THROUGHPUT.name]


def _case(case: Case, block: int, url: str, seconds: int) -> PeerRun:
    return attempt(block, case.title, "kvmark", partial(_figures, case, url, seconds))


def _figures(case: Case, url: str, seconds: int) -> dict[str, float]:
    words = ["app", *case.words, "--system", url, "--run_time", str(seconds)]
    words += ["--pin", str(GENERATOR_CORE), "--json", "--quiet"]
    once = kvmark.once(find_kvmark(), words, GENERATOR_CORE, case.items)
    return {
        THROUGHPUT.name: once.ops_per_s,
        CPU.name: once.cpu_ns / once.operations,
        MEMORY.name: once.peak_bytes / 1e6,
    }


def _flat(block: int, seconds: int) -> Iterator[PeerRun]:
    """The generator's memory at both ends of a long run as fast as it goes."""
    words = ["app", "RedisKeyValue", "--system", "sim:?servers=32&mean_us=0"]
    words += ["--run_time", str(seconds), "--json", "--quiet"]
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        variables = {"KVMARK_RUNS": folder}
        cores = f"{GENERATOR_CORE},{SERVER_CORE}"
        try:
            execute([*find_kvmark(), *words], cores, kvmark.MEASURED, variables)
        except PeerFailedError as failure:
            said = str(failure)
            yield PeerRun(block=block, case=FLAT, program=LAST, figures=None, failed=said)
            return
        (file,) = Path(folder).glob("*/resources.parquet")
        rows = pl.read_parquet(file).filter(pl.col("node") == GENERATOR).sort("at_wall_ns")
    resident = rows["resident_bytes"].to_list()
    tenth = max(len(resident) // 10, 1)
    for program, part in ((LAST, resident[-tenth:]), (FIRST, resident[:tenth])):
        figures = {MEMORY.name: max(part) / 1e6}
        yield PeerRun(block=block, case=FLAT, program=program, figures=figures)


def _peers(servers: str, measured: Sequence[PeerRun]) -> Peers:
    bound = PeerBound(figure=MEMORY.name, peer=FIRST, limit=GROWN_MOST)
    return peers_of(
        "What the sample applications' published clients cost",
        f"{servers} on core {SERVER_CORE}, clients on core {GENERATOR_CORE}; {FLAT}: the simulated"
        " driver, on both",
        (THROUGHPUT, CPU, MEMORY),
        [
            *(PeerCase(name=case.title, programs=("kvmark",)) for case in CASES),
            PeerCase(name=FLAT, programs=(LAST, FIRST), bounds=(bound,)),
        ],
        measured,
    )


if __name__ == "__main__":
    sys.exit(main())
