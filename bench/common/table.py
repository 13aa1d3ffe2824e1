"""The answer as text: medians by peer, ratios with their intervals, and the bounds beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from bench.common.blocks import Repetition
from bench.common.figures import Bound, Compared, Figure

from kvmark.stats import Estimate, paired_ratio


def by_block(
    repetitions: Sequence[Repetition], case: Compared, peer: str, figure: Figure
) -> dict[int, float]:
    """A figure of one peer in one case, for the blocks in which it was measured."""
    return {
        one.block: figure.of(one.measured)
        for one in repetitions
        if one.case == case.name and one.peer == peer and one.measured is not None
    }


def medians(
    repetitions: Sequence[Repetition], cases: Sequence[Compared], figures: Sequence[Figure]
) -> Iterator[str]:
    """Each peer's medians over the blocks."""
    yield f"{'case':<20}{'peer':<17}" + "".join(f"{figure.head:>19}" for figure in figures)
    for case in cases:
        for peer in case.peers:
            values = [by_block(repetitions, case, peer, figure).values() for figure in figures]
            if values[0]:
                cells = zip(figures, values, strict=True)
                row = "".join(f"{median(every):>19{figure.form}}" for figure, every in cells)
                yield f"{case.name:<20}{peer:<17}{row}"


def ratios(
    repetitions: Sequence[Repetition], cases: Sequence[Compared], figures: Sequence[Figure]
) -> Iterator[str]:
    """Our side over each peer's, figure by figure, from the blocks that have both."""
    for case in cases:
        for peer in case.peers[1:]:
            for figure in figures:
                ours = by_block(repetitions, case, case.peers[0], figure)
                theirs = by_block(repetitions, case, peer, figure)
                both = sorted(ours.keys() & theirs.keys())
                if both:
                    before, after = ([side[block] for block in both] for side in (theirs, ours))
                    yield ratio_row(case, peer, figure, paired_ratio(before, after))


def ratio_row(case: Compared, peer: str, figure: Figure, ratio: Estimate) -> str:
    """One ratio, and its bound if there is one."""
    held = [bound for bound in case.bounds if (bound.peer, bound.figure) == (peer, figure)]
    said = "".join(f"{sign(bound)} {bound.limit:g}  {judged(bound, ratio)}" for bound in held)
    low, high = ratio.low or 0.0, ratio.high or float("inf")
    interval = f"{ratio.value:.3f} [{low:.3f}, {high:.3f}]"
    return f"{case.name:<20}{peer:<17}{figure.name:<26}{interval:>24}   {said}".rstrip()


def sign(bound: Bound) -> str:
    """The bound's direction."""
    return "≤" if bound.most else "≥"


def judged(bound: Bound, ratio: Estimate) -> str:
    """Met when the whole interval is within the bound, open when only the value is."""
    side = 1 if bound.most else -1
    end = ratio.high if bound.most else ratio.low
    if end is not None and side * end <= side * bound.limit:
        return "met"
    return "open" if side * ratio.value <= side * bound.limit else "NOT met"


def word(*, met: bool) -> str:
    """How a bound came out."""
    return "met" if met else "NOT met"
