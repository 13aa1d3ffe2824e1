"""Two sides measured in turn until their ratio is known well enough.

A block holds one run of each side, in an order drawn by chance, so that whatever the machine does
from block to block happens to both. How many blocks there are is decided by their scatter alone
(:mod:`kvmark.stats.sequential` says why that keeps the error level).

Here is the procedure alone: who measures and who decides is handed in.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal

from kvmark.analysis import Judgement, Level, Verdict
from kvmark.errors import UsageError

__all__ = [
    "LEAST_BLOCKS", "MOST_LEFT_OUT", "SIDES", "Blocks", "Precision", "Side", "SideFailures",
    "Standing", "interleaved", "order",
]  # fmt: skip

Side = Literal["base", "candidate"]
SIDES: Final[tuple[Side, Side]] = ("base", "candidate")

MOST_LEFT_OUT: Final = 3
"""So many blocks one after the other that can't be used are no chance: it isn't gone on with."""

LEAST_BLOCKS: Final = 4
"""The fewest blocks that a comparison stands on."""


@dataclass(frozen=True, slots=True)
class Precision:
    """When both are known well enough: one of ``within``, ``find`` and ``exactly`` is given."""

    within: float | None
    """Half the width of the ratio's interval, as a share: 0.01 is ± 1 %."""
    find: float | None
    """A difference that is to be found if it is there, as a share."""
    most_blocks: int
    first_stage: int = 12
    """Blocks after whose scatter the number of blocks is decided."""
    exactly: int | None = None
    """So many blocks, whatever their scatter."""
    claims: int = 1
    """Metrics that the answer reports together, which share the error level."""

    def __post_init__(self) -> None:
        """Checks the values."""
        if [self.within, self.find, self.exactly].count(None) != 2:
            raise UsageError("precision: give one of --within, --find and --repetitions")
        for name, share in (("within", self.within), ("find", self.find)):
            if share is not None and not 0 < share <= 1:
                raise UsageError(f"{name}: must be above 0 % and at most 100 %, not {share:.4%}")
        for name, blocks in (("max-blocks", self.most_blocks), ("repetitions", self.exactly)):
            if blocks is not None and blocks < LEAST_BLOCKS:
                raise UsageError(
                    f"{name}: must be at least {LEAST_BLOCKS}, not {blocks}: the scatter of fewer"
                    " blocks says nothing"
                )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the answer stands after some blocks."""

    blocks: int
    #: How many there will be; none while that isn't decided.
    needed: int | None
    #: How many there would have to be for what was asked; more than ``needed`` at the bound.
    wanted: int | None
    done: bool


@dataclass(frozen=True, slots=True)
class SideFailures:
    """How many runs of a side are INVALID, those of blocks that were replaced among them."""

    side: Side
    #: All runs of the side that came to their end.
    runs: int
    invalid: int
    #: How many of these runs have each reason that made them INVALID.
    reasons: Mapping[str, int]
    #: The first such run and what it says; none without one.
    first: str | None


@dataclass
class Blocks:
    """What a comparison has measured so far."""

    #: The runs of each block of which both can be used, by side.
    complete: list[dict[Side, str]] = field(default_factory=list)
    #: Why others can't, a clause each, by their numbers.
    left_out: dict[int, str] = field(default_factory=dict)
    #: The verdict of every run that came to its end, by side, usable or not.
    verdicts: dict[Side, list[tuple[str, Verdict]]] = field(default_factory=dict)
    #: Where the answer stood after the last complete one; none before the first.
    standing: Standing | None = None

    def runs(self, side: Side) -> list[str]:
        """A side's runs, in the order of their blocks."""
        return [block[side] for block in self.complete]

    def leave_out(self, block: int, problem: str) -> None:
        """Notes why a block can't be used; of both sides, where both are the reason."""
        before = f"{self.left_out[block]}; " if block in self.left_out else ""
        self.left_out[block] = f"{before}{problem}"

    def failures(self) -> tuple[SideFailures, ...]:
        """Both sides' INVALID runs; empty where no run is."""
        sides = tuple(_failures(side, self.verdicts.get(side, [])) for side in SIDES)
        return sides if any(one.invalid for one in sides) else ()


def _failures(side: Side, verdicts: Sequence[tuple[str, Verdict]]) -> SideFailures:
    invalid = [one for one in verdicts if one[1].judgement is Judgement.INVALID]
    codes = Counter(
        code
        for _, verdict in invalid
        for code in {one.code for one in verdict.reasons if one.level is Level.INVALID}
    )
    first = None
    if invalid:
        run, verdict = invalid[0]
        first = f"run {run}: {verdict.reasons[0].sentence}"
    return SideFailures(side, len(verdicts), len(invalid), dict(codes), first)


def order(seed: int) -> Iterator[tuple[Side, Side]]:
    """The order of the sides in each block, without end."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        yield SIDES if chance.random() < 0.5 else (SIDES[1], SIDES[0])


def interleaved(
    seed: int,
    measure: Callable[[int, Side], float | None],
    decide: Callable[[Sequence[float]], Standing],
) -> Iterator[Standing]:
    """Measures block after block until it is decided that there are enough.

    ``measure`` carries out one run and returns its figure, above 0, or none if the run can't be
    used: then its block is left out, and several such blocks in a row end the comparison. The other
    side of such a block is measured all the same, so that failures of both are counted alike.
    ``decide`` is given the logarithms of candidate ÷ base so far.
    """
    log_ratios: list[float] = []
    left_out = 0
    for block, sides in zip(count(), order(seed), strict=False):
        figures = {side: measure(block, side) for side in sides}
        values = {side: value for side, value in figures.items() if value is not None}
        if len(values) < len(sides):
            left_out += 1
            if left_out == MOST_LEFT_OUT:
                return
            continue
        left_out = 0
        log_ratios.append(math.log(values["candidate"] / values["base"]))
        standing = decide(log_ratios)
        yield standing
        if standing.done:
            return
