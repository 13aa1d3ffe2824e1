"""Blocks of repetitions: every case with every peer once, in an order of the block's own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.redis.peers import LOAD, Case, Job, Measured, Program, measure
from bench.redis.process import PeerFailedError
from bench.redis.server import Server


@dataclass(frozen=True)
class Repetition:
    """One peer's measurement of one case in one block."""

    block: int
    case: str
    peer: str
    measured: Measured | None
    #: Why nothing was measured.
    failed: str = ""


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


def order(
    cases: Sequence[Case], programs: Mapping[str, Program], chance: random.Random
) -> Iterator[tuple[Case, str]]:
    """Cases in random order, and each with its peers next to each other, in random order too."""
    for case in chance.sample(cases, len(cases)):
        peers = [peer for peer in case.peers if peer in programs]
        for peer in chance.sample(peers, len(peers)):
            yield case, peer


def run_blocks(
    server: Server, programs: Mapping[str, Program], cases: Sequence[Case], wanted: Wanted
) -> Iterator[Repetition]:
    """All repetitions, as they end; one that fails keeps the others."""
    chance = random.Random(wanted.seed)  # noqa: S311 - an order, not a secret
    for block in range(wanted.blocks):
        for case, peer in order(cases, programs, chance):
            job = job_of(wanted, server, case, block)
            try:
                measured = measure(server, peer, programs[peer], job)
            except PeerFailedError as failure:
                yield Repetition(block, case.name, peer, None, str(failure))
            else:
                yield Repetition(block, case.name, peer, measured)
