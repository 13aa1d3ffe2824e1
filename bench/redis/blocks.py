"""What each block measures, and the load that all blocks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.common.blocks import Repetition, repetitions
from bench.common.figures import Measured, Program
from bench.redis.peers import LOAD, Case, Job, measure
from bench.redis.server import Server


@dataclass(frozen=True)
class Wanted:
    """How much is measured, and where."""

    records: int
    operations: int
    blocks: int
    seed: int
    core: int


def job_of(wanted: Wanted, server: Server, case: Case, block: int = 0) -> Job:
    """A case's run in one block; each block has chance of its own."""
    return Job(
        case=case,
        host=server.host,
        port=server.port,
        records=wanted.records,
        operations=wanted.operations * case.factor,
        seed=wanted.seed + block,
        core=wanted.core,
    )


def load(
    server: Server, programs: Mapping[str, Program], cases: Sequence[Case], wanted: Wanted
) -> None:
    """Loads every key that a peer will read, once."""
    loaded: set[tuple[str, bool]] = set()
    for case in cases:
        for peer in (peer for peer in case.peers if peer in LOAD and peer in programs):
            layout = (peer, case.hashes)
            if layout not in loaded:
                LOAD[peer](programs[peer], job_of(wanted, server, case))
                loaded.add(layout)


def run_blocks(
    server: Server, programs: Mapping[str, Program], cases: Sequence[Case], wanted: Wanted
) -> Iterator[Repetition]:
    """All repetitions, as they end."""

    def measured(case: Case, peer: str, block: int) -> Measured:
        return measure(server, peer, programs[peer], job_of(wanted, server, case, block))

    return repetitions(cases, programs, wanted.blocks, wanted.seed, measured)
