"""The fastest and the slowest of a table in a sentence, or the groups that can't be told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kvmark.analysis.compare.extremes import Extremes
from kvmark.report.views.plan_words import listed

__all__ = ["ends_sentence"]

T = TypeVar("T")

_MOST_NAMED: Final = 3


def ends_sentence(found: Extremes[T], named: Callable[[T], str], speed: Callable[[T], str]) -> str:
    """What may be said of the ends; empty where there is no case."""
    told = _placed(found, named, speed)
    left = len(found.left_out)
    if not left:
        return told
    if left == 1 and not found.placed:
        (only,) = found.left_out
        return f"Throughput of {named(only)} is {speed(only)}."
    if not found.placed:
        return "No case is the fastest: none is VALID and known precisely enough to say so."
    cases = "One case isn't" if left == 1 else f"{left} cases aren't"
    return f"{told} {cases} VALID and precise, and in no comparison."


def _placed(found: Extremes[T], named: Callable[[T], str], speed: Callable[[T], str]) -> str:
    def at(case: T) -> str:
        return f"{named(case)}, at {speed(case)}"

    if not found.placed:
        return ""
    fastest, slowest = found.fastest[0], found.slowest[0]
    if found.placed == 1:
        return f"Throughput of {named(fastest)} is {speed(fastest)}."
    if not found.apart:
        return (
            f"No case is the fastest: the intervals of the highest throughput, {at(fastest)}, and"
            f" of the lowest, {at(slowest)}, overlap."
        )
    fast, slow = (_end(group, named, at) for group in (found.fastest, found.slowest))
    case = " case" if len(found.fastest) == 1 else ""
    return f"The fastest{case} {fast}; the slowest {slow}."


def _end(cases: Sequence[T], named: Callable[[T], str], at: Callable[[T], str]) -> str:
    """One case, or a group with the one that leads it."""
    first, *others = cases
    if not others:
        return f"is {at(first)}"
    names = [named(case) for case in others[:_MOST_NAMED]]
    more = len(others) - len(names)
    if more:
        names.append(f"{more} more")
    return f"are {at(first)}, with {listed(names)}, whose intervals overlap its own"
