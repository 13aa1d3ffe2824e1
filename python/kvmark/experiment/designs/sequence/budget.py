"""How a budget of time is shared among repetitions of sequences.

A sequence is repeated from its beginning up to a place, because each step needs the dataset that
the ones before it left. So one more repetition of a step brings one of each step before it.

Pure functions: times are seconds, and lists are per sequence, then per place in it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["affordable", "price"]


def affordable(
    costs: Sequence[Sequence[float]],
    lacking: Sequence[Sequence[int]],
    ends: Sequence[int],
    left_s: float,
) -> list[list[int]]:
    """How many more repetitions go through each place when so much time is left.

    As many places as possible get all that they lack: the cheapest to complete come first, and one
    that can't be completed gets as many as fit. `ends` says at which place a repetition that is
    wanted for the sake of a place may end.
    """
    more = [[0] * len(row) for row in costs]
    places = [(one, at) for one, row in enumerate(lacking) for at, lacks in enumerate(row) if lacks]
    none = [0] * len(ends)
    whole = {
        (one, at): _raise_price(costs[one], none, ends[at], lacking[one][at]) for one, at in places
    }
    for one, at in sorted(places, key=whole.__getitem__):
        for count in range(lacking[one][at], more[one][at], -1):
            extra_s = _raise_price(costs[one], more[one], ends[at], count)
            if extra_s <= left_s:
                left_s -= extra_s
                for before in range(ends[at] + 1):
                    more[one][before] = max(more[one][before], count)
                break
    return more


def price(costs: Sequence[Sequence[float]], more: Sequence[Sequence[int]]) -> float:
    """What so many repetitions take."""
    return sum(
        count * cost
        for counts, row in zip(more, costs, strict=True)
        for count, cost in zip(counts, row, strict=True)
    )


def _raise_price(costs: Sequence[float], more: Sequence[int], end: int, count: int) -> float:
    """What it takes to bring every place up to `end` to this count."""
    return sum(max(count - more[at], 0) * costs[at] for at in range(end + 1))
