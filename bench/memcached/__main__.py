"""Prints what a get of memcached costs kvmark, beside a bare epoll loop that does nothing else.

python -m bench.memcached [--blocks 10] [--operations 1000000] [--only TEXT] [--results FOLDER]

Server and client have a core each. A block runs every case with both once, in an order of its own,
so that drift of the machine is shared; ratios are those of the pairs within a block: geometric
mean, with a 95 % t-interval on the logarithms.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.common import kvmark
from bench.common.blocks import Repetition, repetitions
from bench.common.console import carried_out, parser, publish, say
from bench.common.figures import CPU, SHORT, THROUGHPUT, Bound, Measured, Once, Program, cost
from bench.common.process import PeerFailedError, execute
from bench.common.table import case_of, figure_of, peers_of, run_of
from bench.common.tools import find, find_example, find_kvmark

from kvmark.analysis.peers import Peers
from kvmark.testbed import memcached
from kvmark.testbed.console import connect
from kvmark.testbed.control import take_down
from kvmark.testbed.memcached.up import told
from kvmark.testbed.state import Testbed

HERE = Path(__file__).resolve().parent
BARE = "bare epoll loop"
FIGURES = (THROUGHPUT, CPU)
MEMORY_BYTES = 256 << 20
FIND = {
    "kvmark": find_kvmark,
    BARE: lambda: find_example("kvmark-driver-memcached", "bare_memcached"),
}


@dataclass(frozen=True)
class Case:
    """What is compared."""

    name: str
    bounds: tuple[Bound, ...]
    peers: tuple[str, ...] = ("kvmark", BARE)
    #: The workload as kvmark knows it.
    workload: str = "memcached/get"
    clients: int = 50


HELD = (Bound(BARE, CPU, 1.2),)
CHECKED = Case("get, values checked", HELD, workload=str(HERE / "get-checked.yaml"))
CASES = (Case("get", HELD), CHECKED)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    made = parser("bench.memcached", __doc__, blocks=10)
    made.add_argument("--only", default="", help="cases with this text in their name")
    made.add_argument("--operations", type=int, default=1_000_000)
    made.add_argument("--generator-core", type=int, default=0)
    made.add_argument("--server-core", type=int, default=1)
    return made.parse_args(arguments)


@contextmanager
def serving(core: int) -> Iterator[Testbed]:
    """Starts a server with one thread on a core, and stops it at the end.

    Raises:
        UsageError: there is no memcached, or not that core.
        SystemUnderTestError: it doesn't start.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        root = Path(folder)
        wanted = memcached.Wanted(cores=(core,), threads=1, memory_bytes=MEMORY_BYTES)
        try:
            yield memcached.up(wanted, root)
        finally:
            take_down(root)


def misses(server: Testbed) -> int:
    """Reads of keys that weren't there, since the server started."""
    return int(told(connect(server, server.nodes[0]))["get_misses"])


def kvmark_words(
    server: Testbed, given: argparse.Namespace, case: Case, *more: object
) -> list[str]:
    """The words behind the program's name."""
    words: list[object] = ["run", case.workload, "--system", server.url]
    words += ["--records", given.records, "--clients", case.clients]
    words += ["--pin", given.generator_core, "--json", "--quiet", *more]
    return [str(word) for word in words]


def load(program: Program, server: Testbed, given: argparse.Namespace) -> None:
    """The records that both read, with values that can be checked."""
    words = kvmark_words(server, given, CHECKED, "--load", "always", "--operations", 1)
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        variables = {"KVMARK_RUNS": folder}
        execute([*program, *words], given.generator_core, kvmark.MEASURED, variables)


def once(
    peer: str,
    program: Program,
    server: Testbed,
    given: argparse.Namespace,
    case: Case,
    operations: int,
    seed: int,
) -> Once:
    """One run of one of both."""
    if peer == "kvmark":
        more = ("--load", "never", "--operations", operations, "--seed", seed)
        words = kvmark_words(server, given, case, *more)
        return kvmark.once(program, words, given.generator_core)
    words = [f"address={server.nodes[0].address}", f"connections={case.clients}"]
    words += [f"records={given.records}", f"operations={operations}", f"seed={seed}"]
    ended = execute([*program, *words], given.generator_core)
    return Once(operations, json.loads(ended.output)["ops_per_s"], ended.cpu_ns)


def measure(
    programs: Mapping[str, Program], server: Testbed, given: argparse.Namespace
) -> Iterator[Repetition]:
    """All repetitions, as they end."""

    def measured(case: Case, peer: str, block: int) -> Measured:
        before, seed = misses(server), given.seed + block
        short, long = (
            once(peer, programs[peer], server, given, case, operations, seed)
            for operations in (given.operations // SHORT, given.operations)
        )
        if misses(server) > before:
            raise PeerFailedError(f"{misses(server) - before} keys it read weren't there")
        return cost(short, long)

    cases = [case for case in CASES if given.only in case.name]
    return repetitions(cases, programs, given.blocks, given.seed, measured)


def kept(found: Sequence[Repetition], given: argparse.Namespace, server: Testbed) -> Peers:
    """Everything that was measured."""
    cores = f"on core {given.server_core}, clients on core {given.generator_core}"
    load = f"{given.records:,} keys, {given.operations:,} operations"
    return peers_of(
        "kvmark beside a bare loop on one memcached",
        f"memcached {server.version} with one thread {cores}; {load}",
        [figure_of(one) for one in FIGURES],
        [case_of(case) for case in CASES],
        [run_of(one, FIGURES) for one in found],
    )


def run(given: argparse.Namespace) -> bool:
    """Starts the server, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: the load ended badly.
        KvmarkError: there is no server to measure.
    """
    programs, missing = find(FIND)
    for sentence in missing:
        say(sentence)
    found = []
    with serving(given.server_core) as server:
        say("loading")
        load(programs["kvmark"], server, given)
        for repetition in measure(programs, server, given):
            found.append(repetition)
            say(repetition.said(given.blocks))
        peers = kept(found, given, server)
    publish(peers, "bench-memcached", given.results)
    return not missing and not any(repetition.failed for repetition in found)


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a peer or the server failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
