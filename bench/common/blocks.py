"""Blocks of repetitions: every case with every peer once, in an order of the block's own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.common.figures import Compared, Measured, Program
from bench.common.process import PeerFailedError

C = TypeVar("C", bound=Compared)
"""A case of whatever comparison."""


@dataclass(frozen=True)
class Repetition:
    """One peer's measurement of one case in one block."""

    block: int
    case: str
    peer: str
    measured: Measured | None
    #: Why nothing was measured.
    failed: str = ""

    def said(self, blocks: int) -> str:
        """It in a line of progress."""
        did = self.failed
        if self.measured is not None:
            rate, cpu_us = self.measured.ops_per_s, self.measured.cpu_ns_per_operation / 1e3
            did = f"{rate:,.0f}/s, {cpu_us:.2f} µs"
        return f"block {self.block + 1}/{blocks}  {self.case}  {self.peer}: {did}"


def order(
    cases: Sequence[C], programs: Mapping[str, Program], chance: random.Random
) -> Iterator[tuple[C, str]]:
    """Cases in random order, and each with its peers next to each other, in random order too."""
    for case in chance.sample(cases, len(cases)):
        peers = [peer for peer in case.peers if peer in programs]
        for peer in chance.sample(peers, len(peers)):
            yield case, peer


def repetitions(
    cases: Sequence[C],
    programs: Mapping[str, Program],
    blocks: int,
    seed: int,
    measure: Callable[[C, str, int], Measured],
) -> Iterator[Repetition]:
    """All repetitions, as they end; one that fails keeps the others."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    for block in range(blocks):
        for case, peer in order(cases, programs, chance):
            try:
                measured = measure(case, peer, block)
            except PeerFailedError as failure:
                yield Repetition(block, case.name, peer, None, str(failure))
            else:
                yield Repetition(block, case.name, peer, measured)
