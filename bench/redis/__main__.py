"""Prints kvmark's cost and throughput on Redis beside its peers', with the bounds it is held to.

python -m bench.redis [--blocks 10] [--operations 200000] [--only TEXT] [--results FOLDER]

Server and client have a core each. A block runs every case with every peer once, in an order of
its own, so that drift of the machine is shared; ratios are those of the pairs within a block:
geometric mean, with a 95 % t-interval on the logarithms. A peer that is missing is named, and the
rest goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.common.blocks import Repetition
from bench.common.console import carried_out, parser, publish, say
from bench.common.figures import Program
from bench.common.limits import SPARE_FILES, raise_file_limit
from bench.common.process import PeerFailedError
from bench.common.table import peers_of
from bench.common.tools import find
from bench.redis.blocks import Wanted, job_of, load, run_blocks
from bench.redis.cases import (
    CASES,
    CONNECTIONS,
    CONNECTIONS_NAME,
    STALL_NAME,
    STALL_RUNS,
)
from bench.redis.connections import Crowd, crowds
from bench.redis.peers import VALUE_BYTES, Case
from bench.redis.server import Server, serving
from bench.redis.stall import Stalled, stalls
from bench.redis.table import cases, figures, runs
from bench.redis.tools import FIND, VERSIONS

from kvmark.analysis.peers import Peers


@dataclass
class Answer:
    """Everything that was measured, and what was left out."""

    repetitions: list[Repetition] = field(default_factory=list)
    #: By block.
    crowds: dict[int, list[Crowd]] = field(default_factory=dict)
    stalls: dict[int, list[Stalled]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def note_failure(self, said: str) -> None:
        """Keeps a failure beside what was measured."""
        self.failed = True
        self.notes.append(f"Failed: {said}.")


SUBJECT = "kvmark beside redis-benchmark, resp-benchmark, a bare epoll loop, YCSB and go-ycsb."


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    made = parser(
        "bench.redis",
        SUBJECT,
        blocks=10,
    )
    made.add_argument("--only", default="", help="cases with this text in their name")
    made.add_argument("--operations", type=int, default=200_000, help="of a run without pipelining")
    made.add_argument("--generator-core", type=int, default=0)
    made.add_argument("--server-core", type=int, default=1)
    return made.parse_args(arguments)


def measure(given: argparse.Namespace, server: Server, programs: Mapping[str, Program]) -> Answer:
    """Loads and runs everything that is asked for."""
    wanted = Wanted(given.records, given.operations, given.blocks, given.seed, given.generator_core)
    wanted_cases = [case for case in CASES if given.only in case.name]
    strings = CASES[0]
    answer = Answer()
    say("loading")
    load(server, programs, [strings, *wanted_cases], wanted)
    for repetition in run_blocks(server, programs, wanted_cases, wanted):
        answer.repetitions.append(repetition)
        said = repetition.said(given.blocks)
        say(said)
        if repetition.failed:
            answer.note_failure(said)
    try:
        if given.only in STALL_NAME:
            for block in range(min(STALL_RUNS, given.blocks)):
                answer.stalls[block] = stalls(server, programs, job_of(wanted, server, strings))
                say(f"{STALL_NAME}: {answer.stalls[block]}")
        if given.only in CONNECTIONS_NAME:
            for block in range(min(STALL_RUNS, given.blocks)):
                answer.crowds[block] = with_many_connections(server, programs, wanted, answer)
    except PeerFailedError as failure:
        answer.note_failure(str(failure))
    return answer


def with_many_connections(
    server: Server, programs: Mapping[str, Program], wanted: Wanted, answer: Answer
) -> list[Crowd]:
    """The case of many connections, or a note why it can't be."""
    if not raise_file_limit(CONNECTIONS + SPARE_FILES):
        answer.notes.append(
            f"{CONNECTIONS_NAME}: left out, because the limit of open files is too low: raise it"
            f" with `ulimit -Hn {CONNECTIONS + SPARE_FILES}`."
        )
        return []
    case = Case(CONNECTIONS_NAME, "get", (), (), clients=CONNECTIONS)
    found = crowds(programs, job_of(wanted, server, case))
    say(f"{CONNECTIONS_NAME}: {found}")
    return found


def setting(given: argparse.Namespace, server: Server) -> str:
    """On what it was measured."""
    cores = f"on core {given.server_core}, clients on core {given.generator_core}"
    load = f"{given.records:,} keys, values of {VALUE_BYTES} bytes, {given.operations:,} operations"
    return f"Redis {server.version} {cores}; {load}, more with pipelining"


def kept(answer: Answer, given: argparse.Namespace, server: Server) -> Peers:
    """Everything that was measured."""
    return peers_of(
        SUBJECT.removesuffix("."), setting(given, server), figures(), cases(),
        runs(answer.repetitions, answer.crowds, answer.stalls), VERSIONS,
    )  # fmt: skip


def run(given: argparse.Namespace) -> bool:
    """Finds the peers, starts the server, measures and prints; whether nothing failed.

    Raises:
        PeerFailedError: a peer ended badly.
        KvmarkError: there is no server to measure.
    """
    # Before the server starts: it may open as many files as we may.
    raise_file_limit(CONNECTIONS + SPARE_FILES)
    # It starts before the peers are built, which takes minutes: it may not be there at all.
    with serving(given.server_core, CONNECTIONS) as server:
        say("finding and building the peers")
        programs, missing = find(FIND)
        for sentence in missing:
            say(sentence)
        begun = time.monotonic()
        answer = measure(given, server, programs)
        answer.notes += [f"Left out: {sentence}" for sentence in missing]
        answer.notes.append(f"Took {(time.monotonic() - begun) / 60:.0f} minutes.")
        peers = kept(answer, given, server)
    publish(peers, "bench-redis", given.results, answer.notes)
    return not answer.failed


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a peer or the server failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
