"""The fastest and the slowest cases: one, or a group without a significant difference.

A case is named alone only where no other's interval reaches into its own. What isn't VALID, is
imprecise or has no interval, is not placed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kvmark.analysis.verdict.case_verdict import Judged, is_precise
from kvmark.records import Judgement
from kvmark.stats import Estimate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extremes(Generic[T]):
    """The ends of a table of throughputs."""

    #: The case with the highest throughput, and those whose intervals overlap its own.
    fastest: tuple[T, ...]
    #: Likewise of the lowest, the lowest first.
    slowest: tuple[T, ...]
    #: How many cases are placed.
    placed: int
    #: Those that have a figure and aren't placed.
    left_out: tuple[T, ...]

    @property
    def apart(self) -> bool:
        """Whether the fastest and the slowest differ significantly."""
        return not any(one is self.slowest[0] for one in self.fastest)


def extremes(
    cases: Iterable[T],
    throughput: Callable[[T], Estimate | None],
    verdict: Callable[[T], Judged],
) -> Extremes[T]:
    """The ends among these cases."""
    placed: list[tuple[Estimate, T]] = []
    left_out: list[T] = []
    for case in cases:
        found, judged = throughput(case), verdict(case)
        if found is None:
            continue
        usable = judged.judgement is Judgement.VALID and is_precise(judged)
        if usable and found.error is not None:
            placed.append((found, case))
        else:
            left_out.append(case)
    rising = sorted(placed, key=lambda one: one[0].value)
    return Extremes(_with(rising[::-1]), _with(rising), len(placed), tuple(left_out))


def _with(ordered: list[tuple[Estimate, T]]) -> tuple[T, ...]:
    """The first, and those whose intervals overlap with its own."""
    return tuple(case for found, case in ordered if _overlap(ordered[0][0], found))


def _overlap(one: Estimate, other: Estimate) -> bool:
    bounds = (one.low, one.high, other.low, other.high)
    if None in bounds:
        return False
    low, high, least, most = (bound or 0.0 for bound in bounds)
    return low <= most and least <= high
