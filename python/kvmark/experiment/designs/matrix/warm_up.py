"""The load that warms up servers which a study has started: its own cases', cut short."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kvmark.plan.compile import compile_run
from kvmark.spec.run import RunSpec

__all__ = ["cut_short", "representatives"]

_CLIENTS: Final = 64
"""Enough to fill a server; of more it is their queue that grows."""


def representatives(specs: Iterable[RunSpec]) -> list[int]:
    """Which of these runs warm servers up for all of them: one of each workload, by its place.

    It is the one with the most kinds of operations, and of these the one whose clients are nearest
    to what fills a server. A workload that can't be repeated at will warms nothing up.
    """
    best: dict[str, tuple[tuple[int, float], int]] = {}
    for place, spec in enumerate(specs):
        if spec.replay is not None or spec.workload.once_per_record:
            continue
        worth, name = _worth(spec), spec.workload.name
        if name not in best or worth > best[name][0]:
            best[name] = (worth, place)
    return [place for _, place in best.values()]


def cut_short(spec: RunSpec, duration_ns: int) -> RunSpec:
    """The same load for so long, as fast as its clients go, and with nothing broken."""
    plan = compile_run(spec)
    paced = spec.rate is not None
    return replace(
        spec,
        duration_ns=duration_ns,
        operations=None,
        until_stderr=None,
        warmup_ns=0,
        warmup_until=None,
        # What is asked for at a rate is as fast on a server that isn't warm.
        rate=None,
        arrival=None if paced else spec.arrival,
        clients=plan.groups[0].clients if paced else spec.clients,
        interval_ns=None,
        faults=(),
        verify=False,
    )


def _worth(spec: RunSpec) -> tuple[int, float]:
    plan = compile_run(spec)
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    groups = [plan.groups[active.group] for active in measured.groups]
    kinds = {(one.kind, one.statement) for group in groups for one in group.mix}
    clients = sum(group.clients for group in groups)
    return len(kinds), -abs(math.log(clients / _CLIENTS))
