"""The answer as text: means by peer, ratios with their intervals, and the bounds beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.redis.blocks import Repetition
from bench.redis.cases import (
    CONNECTIONS_MOST_BYTES,
    CONNECTIONS_NAME,
    CPU,
    STALL_MOST_ERROR,
    STALL_NAME,
    THROUGHPUT,
)
from bench.redis.connections import Crowd
from bench.redis.peers import Bound, Case, Measured
from bench.redis.stall import Stalled

from kvmark.stats import Estimate, mean_interval, paired_ratio

FIGURES: Mapping[str, Callable[[Measured], float]] = {
    THROUGHPUT: lambda measured: measured.ops_per_s,
    CPU: lambda measured: measured.cpu_ns_per_operation,
}


def by_block(
    repetitions: Sequence[Repetition], case: Case, peer: str, figure: str
) -> dict[int, float]:
    """A figure of one peer in one case, for the blocks in which it was measured."""
    return {
        one.block: FIGURES[figure](one.measured)
        for one in repetitions
        if one.case == case.name and one.peer == peer and one.measured is not None
    }


def means(repetitions: Sequence[Repetition], cases: Sequence[Case]) -> Iterator[str]:
    """Each peer's means over the blocks."""
    yield f"{'case':<20}{'peer':<17}{'ops/s':>12}{'client CPU µs/op':>19}"
    for case in cases:
        for peer in case.peers:
            rates, cpu_ns = (by_block(repetitions, case, peer, figure) for figure in FIGURES)
            if rates:
                rate = mean_interval([*rates.values()], "ops/s").value
                cpu_us = mean_interval([*cpu_ns.values()], "ns").value / 1e3
                yield f"{case.name:<20}{peer:<17}{rate:>12,.0f}{cpu_us:>19.3f}"


def ratios(repetitions: Sequence[Repetition], cases: Sequence[Case]) -> Iterator[str]:
    """Our side over each peer's, figure by figure, from the blocks that have both."""
    for case in cases:
        for peer in case.peers[1:]:
            for figure in FIGURES:
                ours = by_block(repetitions, case, case.peers[0], figure)
                theirs = by_block(repetitions, case, peer, figure)
                both = sorted(ours.keys() & theirs.keys())
                if both:
                    before, after = ([side[block] for block in both] for side in (theirs, ours))
                    yield ratio_row(case, peer, figure, paired_ratio(before, after))


def ratio_row(case: Case, peer: str, figure: str, ratio: Estimate) -> str:
    """One ratio, and its bound if there is one."""
    held = [bound for bound in case.bounds if (bound.peer, bound.figure) == (peer, figure)]
    said = "".join(f"{sign(bound)} {bound.limit:g}  {judged(bound, ratio)}" for bound in held)
    low, high = ratio.low or 0.0, ratio.high or float("inf")
    interval = f"{ratio.value:.3f} [{low:.3f}, {high:.3f}]"
    return f"{case.name:<20}{peer:<17}{figure:<26}{interval:>24}   {said}".rstrip()


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


def crowd_rows(crowds: Sequence[Crowd]) -> Iterator[str]:
    """Memory and failures of each peer; the bounds are ours."""
    for crowd in crowds:
        failed = "failures not counted" if crowd.failures is None else f"{crowd.failures} failed"
        did = f"{crowd.operations:,} operations, {failed}, peak {crowd.peak_bytes / 1e6:.0f} MB"
        said = ""
        if crowd.failures is not None:
            met = crowd.failures == 0 and crowd.peak_bytes <= CONNECTIONS_MOST_BYTES
            said = f"   ≤ {CONNECTIONS_MOST_BYTES / 1e6:.0f} MB, none failed  {word(met=met)}"
        yield f"{CONNECTIONS_NAME:<20}{crowd.peer:<17}{did}{said}"


def stall_rows(stalls: Sequence[Stalled]) -> Iterator[str]:
    """What each run reported, beside the closed form."""
    for stall in stalls:
        did = f"p99.9 {stall.p999_s * 1e3:,.1f} ms"
        said = ", service time of a closed model, which stood still too"
        if stall.expected_s is not None:
            error = abs(stall.p999_s / stall.expected_s - 1)
            said = f" of response time, closed form {stall.expected_s * 1e3:,.1f} ms"
            said += f", off by {error:.2%}   ≤ {STALL_MOST_ERROR:.0%}  "
            said += word(met=error <= STALL_MOST_ERROR)
        yield f"{STALL_NAME:<20}{stall.peer:<17}{did}{said}"


def word(*, met: bool) -> str:
    """How a bound came out."""
    return "met" if met else "NOT met"
