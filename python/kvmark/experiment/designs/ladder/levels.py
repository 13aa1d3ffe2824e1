"""cassandra-stress's ladder: more and more clients, until more of them bring nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kvmark.spec.stress.command import Ladder, StressSpec

__all__ = ["PAUSE_S", "goes_on", "levels", "target_uncertainty"]

PAUSE_S: Final = 15.0
"""Between two levels of a ladder that writes, so that the nodes come to rest."""
_FEW: Final = 16
_RECENT: Final = 3
_LONGER: Final = 5


def levels(ladder: Ladder) -> Iterator[int]:
    """Numbers of clients: twice as many each time up to 16, then half as many again."""
    clients = ladder.first
    while clients <= ladder.last:
        yield clients
        clients = clients * 2 if clients < _FEW else max(clients * 3 // 2, clients + 1)


def target_uncertainty(spec: StressSpec) -> float:
    """The gain below which a ladder ends; below nothing where each level has a length."""
    return spec.until.bound if spec.until is not None else -1.0


def goes_on(ladder: Ladder, rates: Sequence[float], target: float) -> bool:
    """Whether to try more clients, by the rates so far (`StressAction.runMulti`)."""
    if not ladder.auto:
        return True
    return _gains(rates, _RECENT, 0.0) and _gains(rates, _LONGER, target)


def _gains(rates: Sequence[float], steps: int, least: float) -> bool:
    """Whether the newest steps brought enough on average, or are too few to tell."""
    if len(rates) < steps + 1:
        return True
    pairs = zip(rates[-steps - 1 : -1], rates[-steps:], strict=True)
    return sum((after - before) / before for before, after in pairs) / steps >= least
