"""Checks whether a throughput is precise enough for answers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from kvmark.analysis.summary.run import rate_resolution, rates_of, throughput
from kvmark.analysis.verdict.evidence import JudgedPhase, percent, reason
from kvmark.analysis.verdict.rules import Reason
from kvmark.stats import Estimate, rate_of_intervals

IMPRECISE: Final = "imprecise"
_UNSERVED: Final = "unserved_clients"
INSUFFICIENT_DATA: Final = frozenset({IMPRECISE, _UNSERVED})
"""Codes of the reasons that a run has which says too little for its length."""


def check_precision(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How wide the throughput's interval is, and whether each client ended an operation."""
    for place, found in _throughputs(phase):
        yield imprecise(found, phase.name, place)
    clients, ended = _clients(phase), phase.count()
    # Where no operation ended, nothing was measured.
    unserved = clients - ended if ended else 0
    yield reason(
        _UNSERVED,
        unserved,
        f"of {clients} clients at least {unserved} ended no operation: there were {ended}",
        {"clients": clients, "ended": ended},
        phase=phase.name,
    )


def imprecise(found: Estimate, phase: str | None = None, place: str = "") -> Reason | None:
    """The reason, where half the interval is too large a part of the throughput.

    An unknown interval has another reason. `place` is that of a segment of the phase.
    """
    share = found.relative_error
    if share is None:
        return None
    return reason(
        IMPRECISE,
        share,
        f"half the interval of the throughput{place} is {percent(share)} of it"
        + (", so that it may be 0" if share > 1 else ""),
        {"throughput": found.value, "error": found.error or 0.0, "n": found.n},
        phase=phase,
    )


def _throughputs(phase: JudgedPhase) -> Iterator[tuple[str, Estimate]]:
    """Of the phase; where faults were planned, of each segment before and after, with its place."""
    if not any(segment.name for segment, _ in phase.quiet):
        yield "", throughput(phase.run, phase.record)
        return
    floor = rate_resolution([phase.run])
    for segment, rows in phase.quiet:
        rates = rates_of(rows)
        if any(rates):
            yield segment.place, rate_of_intervals(fmean(rates), rates, floor).plain("ops/s")


def _clients(phase: JudgedPhase) -> int:
    """Those of the closed model: in the open model their number is a limit."""
    planned = [phase.planned(group.group) for group in phase.record.groups]
    return sum(
        int(group.get("clients", 0))
        for group in planned
        if group.get("arrival", {}).get("process") == "closed"
    )
