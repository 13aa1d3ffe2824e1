"""Prints what a replay at full speed reaches, beside a run whose operations are drawn by chance.

python -m bench.replay [--blocks 10] [--operations 1000000] [--only TEXT] [--results FOLDER]

Both have the same kinds, sizes, number of keys and clients, and on Redis the same commands; the
replay keeps the order of each key.
Server and client have a core each. A block runs every case with both once, in an order of its own;
ratios are those of the pairs within a block: geometric mean, with a 95 % t-interval on the
logarithms.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from bench.common import kvmark
from bench.common.blocks import Repetition, repetitions
from bench.common.console import carried_out, parser, publish, say
from bench.common.figures import CPU, SHORT, THROUGHPUT, Bound, Measured, Once, Program, cost
from bench.common.process import execute
from bench.common.table import case_of, figure_of, peers_of, run_of
from bench.common.tools import find_kvmark
from bench.redis.server import serving

from kvmark.analysis.peers import Peers
from kvmark.trace import COLUMNS, TraceWriter

HERE = Path(__file__).resolve().parent
REPLAY, DRAWN = "replay", "drawn"
FIGURES = (THROUGHPUT, CPU)
KEYS = 100_000
SPARE = 16
"""Connections beside those of the clients."""
REDIS = "Redis"
ENOUGH = (Bound(DRAWN, THROUGHPUT, 0.9, most=False),)


@dataclass(frozen=True)
class Case:
    """What is compared."""

    name: str
    clients: int
    #: The system; none for the server that is started.
    url: str | None
    bounds: tuple[Bound, ...] = ENOUGH
    peers: tuple[str, ...] = (REPLAY, DRAWN)


CASES = (
    Case("null, one client", 1, "null:"),
    Case("null, 64 clients", 64, "null:?yields=1"),
    Case("Redis, 50 clients", 50, None),
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    made = parser("bench.replay", __doc__, blocks=10)
    made.add_argument("--only", default="", help="cases with this text in their name")
    made.add_argument("--operations", type=int, default=1_000_000)
    made.add_argument("--generator-core", type=int, default=0)
    made.add_argument("--server-core", type=int, default=1)
    return made.parse_args(arguments)


def write_trace(path: Path, operations: int) -> None:
    """As many operations, half of them reads, on any key alike."""
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


def words(peer: str, case: Case, url: str, folder: Path, given: argparse.Namespace) -> list[str]:
    """The words behind the program's name."""
    drawn = "drawn.yaml" if case.url else "drawn-redis.yaml"
    replayed = (str(folder / "X.trace"), "--speed", "max")
    workload = replayed if peer == REPLAY else (str(HERE / drawn),)
    made: list[object] = ["run", *workload, "--system", url, "--clients", case.clients]
    made += ["--pin", given.generator_core, "--json", "--quiet"]
    return [str(word) for word in made]


def load(program: Program, url: str, folder: Path, given: argparse.Namespace) -> None:
    """The records that both read."""
    for peer in (REPLAY, DRAWN):
        asked = [*words(peer, CASES[-1], url, folder, given), "--load", "always"]
        with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as runs:
            variables = {"KVMARK_RUNS": runs}
            execute(
                [*program, *asked, "--operations", "1"],
                given.generator_core,
                kvmark.MEASURED,
                variables,
            )


def measure(
    program: Program, url: str, folder: Path, given: argparse.Namespace
) -> Iterator[Repetition]:
    """All repetitions, as they end."""

    def measured(case: Case, peer: str, block: int) -> Measured:
        def once(operations: int) -> Once:
            asked = words(peer, case, case.url or url, folder, given)
            asked += ["--load", "never", "--operations", str(operations)]
            asked += ["--seed", str(given.seed + block)]
            return kvmark.once(program, asked, given.generator_core)

        return cost(once(given.operations // SHORT), once(given.operations))

    cases = [case for case in CASES if given.only in case.name]
    programs: Mapping[str, Program] = dict.fromkeys((REPLAY, DRAWN), program)
    return repetitions(cases, programs, given.blocks, given.seed, measured)


def kept(found: Sequence[Repetition], given: argparse.Namespace, version: str) -> Peers:
    """Everything that was measured."""
    cores = f"on core {given.server_core}, clients on core {given.generator_core}"
    return peers_of(
        "A replay at full speed beside operations drawn by chance",
        f"{REDIS} {version} {cores}; {KEYS:,} keys, {given.operations:,} operations",
        [figure_of(one) for one in FIGURES],
        [case_of(case) for case in CASES],
        [run_of(one, FIGURES) for one in found],
    )


def run(given: argparse.Namespace) -> bool:
    """Starts the server, measures and prints; whether nothing failed."""
    program = find_kvmark()
    found = []
    with (
        serving(given.server_core, SPARE + max(case.clients for case in CASES)) as server,
        tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name,
    ):
        folder = Path(name)
        say(f"writing a trace of {given.operations:,} operations")
        write_trace(folder / "X.trace", given.operations)
        load(program, server.testbed.url, folder, given)
        for repetition in measure(program, server.testbed.url, folder, given):
            found.append(repetition)
            say(repetition.said(given.blocks))
        peers = kept(found, given, server.version)
    publish(peers, "bench-replay", given.results)
    return not any(repetition.failed for repetition in found)


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a run or the server failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
