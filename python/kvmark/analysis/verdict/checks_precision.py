"""Checks whether a throughput is known well enough to stand in an answer."""

from __future__ import annotations

from collections.abc import Iterator

from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.evidence import JudgedPhase, percent, reason
from kvmark.analysis.verdict.rules import RULES, Level, Reason
from kvmark.stats import Estimate

__all__ = ["IMPRECISE", "check_precision", "imprecise"]

IMPRECISE = "imprecise"


def check_precision(phase: JudgedPhase) -> Iterator[Reason | None]:
    """How wide the throughput's interval is, and whether each client ended an operation."""
    yield imprecise(throughput(phase.run, phase.record), phase.name)
    clients, ended = _clients(phase), phase.count()
    if 0 < ended < clients:
        rule = RULES[IMPRECISE]
        yield Reason(
            code=IMPRECISE,
            level=Level.INVALID,
            phase=phase.name,
            sentence=f"Of {clients} clients not each ended an operation: there were {ended}.",
            evidence={"clients": clients, "ended": ended},
            threshold=None,
            advice=rule.advice,
        )


def imprecise(found: Estimate, phase: str | None = None) -> Reason | None:
    """The reason, where half the interval is too large a part of the throughput.

    An interval that isn't known is another reason's.
    """
    share = found.relative_error
    if share is None:
        return None
    return reason(
        IMPRECISE,
        share,
        f"half the interval of the throughput is {percent(share)} of it"
        + (", so that it may be 0" if share > 1 else ""),
        {"throughput": found.value, "error": found.error or 0.0, "n": found.n},
        phase=phase,
    )


def _clients(phase: JudgedPhase) -> int:
    """Those of the closed model: in the open model their number is a limit."""
    planned = [phase.planned(group.group) for group in phase.record.groups]
    return sum(
        int(group.get("clients", 0))
        for group in planned
        if group.get("arrival", {}).get("process") == "closed"
    )
