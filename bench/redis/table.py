"""The comparison as it is kept: its own cases, many connections, and the stall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.common.blocks import Repetition
from bench.common.table import case_of, figure_of, run_of
from bench.redis.cases import (
    CASES,
    CONNECTIONS_MOST_BYTES,
    CONNECTIONS_NAME,
    FASTEST,
    FIGURES,
    STALL_MOST_ERROR,
    STALL_NAME,
)
from bench.redis.connections import Crowd
from bench.redis.stall import Stalled

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun

ADDED = PeerFigure(name="memory added", heading="memory added, MB")
FAILED = PeerFigure(name="failed operations", heading="failed")
P999 = PeerFigure(name="p99.9", heading="p99.9, ms")
OFF = PeerFigure(name="p99.9 off its closed form", heading="off its closed form, %")


def figures() -> list[PeerFigure]:
    """All figures, the comparison's own first."""
    return [*map(figure_of, FIGURES), ADDED, FAILED, P999, OFF]


def cases() -> list[PeerCase]:
    """All cases; the bounds of the last two are on kvmark's figures alone."""
    connections = (
        PeerBound(figure=ADDED.name, limit=CONNECTIONS_MOST_BYTES / 1e6),
        PeerBound(figure=FAILED.name, limit=0),
    )
    stall = (PeerBound(figure=OFF.name, limit=100 * STALL_MOST_ERROR),)
    return [
        *map(case_of, CASES),
        PeerCase(name=CONNECTIONS_NAME, programs=FASTEST, bounds=connections),
        PeerCase(name=STALL_NAME, programs=FASTEST, bounds=stall),
    ]


def runs(
    repetitions: Sequence[Repetition],
    crowds: Mapping[int, Sequence[Crowd]],
    stalls: Mapping[int, Sequence[Stalled]],
) -> Iterator[PeerRun]:
    """Everything that was measured, block by block."""
    yield from (run_of(one, FIGURES) for one in repetitions)
    for block, peers in crowds.items():
        for crowd in peers:
            found = {ADDED.name: crowd.added_bytes / 1e6}
            if crowd.many.failures is not None:
                found[FAILED.name] = crowd.many.failures
            yield PeerRun(block=block, case=CONNECTIONS_NAME, program=crowd.peer, figures=found)
    for block, stood in stalls.items():
        for stall in stood:
            found = {P999.name: stall.p999_s * 1e3}
            if stall.expected_s is not None:
                found[OFF.name] = 100 * abs(stall.p999_s / stall.expected_s - 1)
            yield PeerRun(block=block, case=STALL_NAME, program=stall.peer, figures=found)
