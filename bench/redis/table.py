"""Rows beside the comparison's own: many connections, and the stall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.common.table import word
from bench.redis.cases import (
    CONNECTIONS_MOST_BYTES,
    CONNECTIONS_NAME,
    STALL_MOST_ERROR,
    STALL_NAME,
)
from bench.redis.connections import Crowd
from bench.redis.stall import Stalled


def crowd_rows(crowds: Sequence[Crowd]) -> Iterator[str]:
    """Memory and failures of each peer; the bounds are ours."""
    for crowd in crowds:
        many, one = crowd.many, crowd.one
        failed = "failures not counted" if many.failures is None else f"{many.failures} failed"
        did = f"{many.operations:,} operations, {failed}, {crowd.added_bytes / 1e6:.0f} MB added"
        did += f" ({many.peak_bytes / 1e6:.0f} MB, {one.peak_bytes / 1e6:.0f} with one)"
        said = ""
        if many.failures is not None:
            met = many.failures == 0 and crowd.added_bytes <= CONNECTIONS_MOST_BYTES
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
