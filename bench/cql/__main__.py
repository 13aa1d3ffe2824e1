"""Prints what CQL costs kvmark beside its peers, with the bounds it is held to.

python -m bench.cql [--blocks 6] [--operations 200000] [--only CASE] [--results FOLDER]
python -m bench.cql --clients 10000 [--duration 20]

One Cassandra node has a core to itself, and each client another. A block runs every peer once, in
an order of its own, so that drift of the machine is shared; ratios are those of the pairs within a
block: geometric mean, with a 95 % t-interval on the logarithms. A peer that is missing is named,
and the rest goes on. With --clients there are three nodes and kvmark alone, once over connections
that its clients share and once over thousands of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.common.blocks import Repetition, repetitions
from bench.common.console import carried_out, parser, publish, say
from bench.common.figures import Measured
from bench.common.limits import SPARE_FILES, raise_file_limit
from bench.common.table import case_of, figure_of, peers_of, run_of
from bench.common.tools import find, find_kvmark
from bench.cql.cases import (
    CASES,
    CROWD_NODES,
    CROWD_OWN_CONNECTIONS,
    CROWD_TIMES,
    FIGURES,
    HEAP_MIB,
)
from bench.cql.crowd import Crowd, Wanted, crowd_peers, crowds
from bench.cql.job import Case, Job
from bench.cql.peers import FIELD_BYTES, FIELDS, measure, prepare
from bench.cql.server import serving
from bench.cql.tools import FIND, VERSIONS

from kvmark.analysis.peers import Peers
from kvmark.testbed.host import describe_host
from kvmark.testbed.state import Testbed


@dataclass
class Answer:
    """Everything that was measured, and what was left out."""

    version: str = ""
    repetitions: list[Repetition] = field(default_factory=list)
    crowds: list[Crowd] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: bool = False


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    made = parser("bench.cql", "Measure kvmark beside others on Cassandra.", blocks=6)
    made.add_argument("--operations", type=int, default=200_000, help="of a run")
    made.add_argument("--warmup", type=int, default=400_000, help="before the first block")
    names = [case.name for case in CASES]
    made.add_argument("--only", action="append", choices=names, help="repeatable; else all")
    made.add_argument("--without", action="append", default=[], help="a peer; repeatable")
    made.add_argument("--generator-core", default="0", help="one, or several such as 0,1")
    made.add_argument("--server-core", default="1", help="one, or several such as 0,1")
    made.add_argument("--clients", type=int, help=f"so many on {CROWD_NODES} nodes instead")
    made.add_argument("--duration", type=int, default=20, help="seconds with --clients")
    return made.parse_args(arguments)


def job_of(given: argparse.Namespace, testbed: Testbed, case: Case, block: int = 0) -> Job:
    """A case's run in one block; each block has chance of its own."""
    node = testbed.nodes[0]
    return Job(
        case=case,
        host=node.host,
        port=node.port,
        records=given.records,
        operations=given.operations,
        seed=given.seed + block,
        cores=given.generator_core,
    )


def compare(given: argparse.Namespace) -> Answer:
    """Finds the peers, starts a node, loads and warms it, and runs all blocks.

    Raises:
        PeerFailedError: kvmark did not load the rows.
        KvmarkError: the node doesn't start.
    """
    say("finding and building the peers")
    wanted = {name: found for name, found in FIND.items() if name not in given.without}
    programs, missing = find(wanted)
    answer = Answer(notes=[f"Left out: {sentence}" for sentence in missing])
    cores = tuple(int(core) for core in given.server_core.split(","))
    with serving(1, HEAP_MIB, cores) as testbed:
        answer.version = testbed.version
        say("loading, and warming the node up")
        for case in chosen(given):
            prepare(programs["kvmark"], job_of(given, testbed, case), given.warmup)

        def measured(case: Case, peer: str, block: int) -> Measured:
            return measure(peer, programs[peer], job_of(given, testbed, case, block))

        for one in repetitions(chosen(given), programs, given.blocks, given.seed, measured):
            said = one.said(given.blocks)
            say(said)
            answer.repetitions.append(one)
            if one.failed:
                answer.failed = True
                answer.notes.append(f"Failed: {said}.")
    return answer


def chosen(given: argparse.Namespace) -> Sequence[Case]:
    """The cases that were asked for."""
    return [case for case in CASES if given.only is None or case.name in given.only]


def many(given: argparse.Namespace) -> Answer:
    """Starts three nodes and runs the clients on them.

    Raises:
        PeerFailedError: kvmark did not carry a run out.
        KvmarkError: the nodes don't start.
    """
    answer = Answer()
    # Before the nodes start: they may open as many files as we may.
    raise_file_limit(CROWD_OWN_CONNECTIONS + SPARE_FILES)
    cores = int(describe_host()["cores"])
    wanted = Wanted(given.clients, given.duration, given.records, workers=cores)
    with serving(CROWD_NODES, HEAP_MIB, ()) as testbed:
        answer.version = testbed.version
        for _ in range(min(CROWD_TIMES, given.blocks)):
            for crowd in crowds(find_kvmark(), testbed, wanted):
                answer.crowds.append(crowd)
                say(str(crowd))
    return answer


def setting(given: argparse.Namespace, version: str) -> str:
    """On what it was measured."""
    rows = f"{given.records:,} rows of {FIELDS} columns of {FIELD_BYTES} bytes"
    if given.clients:
        nodes = f"Cassandra {version}, {CROWD_NODES} nodes with a heap of {HEAP_MIB} MiB each"
        return f"{nodes}; nodes and clients share the cores; {rows}"
    node = f"Cassandra {version} with a heap of {HEAP_MIB} MiB on core {given.server_core}"
    return f"{node}, clients on core {given.generator_core}; {rows}"


def kept(answer: Answer, given: argparse.Namespace) -> Peers:
    """Everything that was measured."""
    system = setting(given, answer.version)
    if given.clients:
        return crowd_peers(system, answer.crowds)
    return peers_of(
        "kvmark beside latte, YCSB and cassandra-stress on one Cassandra node",
        f"{system}; {given.operations:,} operations",
        [figure_of(one) for one in FIGURES],
        [case_of(case) for case in chosen(given)],
        [run_of(one, FIGURES) for one in answer.repetitions],
        VERSIONS,
    )


def run(given: argparse.Namespace) -> bool:
    """Measures and prints; whether nothing failed."""
    begun = time.monotonic()
    work: Callable[[argparse.Namespace], Answer] = many if given.clients else compare
    answer = work(given)
    answer.notes.append(f"Took {(time.monotonic() - begun) / 60:.0f} minutes.")
    peers = kept(answer, given)
    name = "bench-cql-clients" if given.clients else "bench-cql"
    publish(peers, name, given.results, answer.notes)
    return not answer.failed


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a peer or a node failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
