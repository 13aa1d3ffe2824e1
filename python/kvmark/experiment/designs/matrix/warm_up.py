"""The load that warms up servers which a study has started: its own cases', cut short."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kvmark.plan.compile import compile_run
from kvmark.plan.model import Group, Plan
from kvmark.plan.names import operation_names
from kvmark.spec.run import RunSpec

__all__ = ["cut_short", "only_reads", "representatives"]

_CLIENTS: Final = 64
"""Enough to fill a server; of more it is their queue that grows."""
_READS: Final = frozenset({"read", "scan"})


def representatives(specs: Iterable[RunSpec]) -> list[int]:
    """Which of these runs warm servers up for all of them, by their places.

    Of each workload as few as have all its operations, those with the most first, and of equals the
    one whose clients are nearest to what fills a server. What can't be repeated at will warms
    nothing up.
    """
    able = []
    for place, spec in enumerate(specs):
        if spec.replay is None and not spec.workload.once_per_record:
            plan = compile_run(spec)
            operations = frozenset(operation_names(plan))
            clients = sum(group.clients for group in _measured(plan))
            # Of several the last one: levels rise in most files, and more copies are more work.
            worth = (len(operations), -abs(math.log(clients / _CLIENTS)), place)
            able.append((worth, spec.workload.name, operations))
    covered: dict[str, set[str]] = {}
    chosen = []
    for (*_, place), workload, operations in sorted(able, reverse=True):
        known = covered.setdefault(workload, set())
        if not operations <= known:
            known |= operations
            chosen.append(place)
    return sorted(chosen)


def cut_short(spec: RunSpec, duration_ns: int, *, settle: bool) -> RunSpec:
    """The same load for so long, as fast as its clients go, and with nothing broken.

    At a rate, or with pauses, a server is as fast when it isn't warm.
    """
    plan = compile_run(spec)
    clients = {group.name: group.clients for group in plan.groups}
    groups = [
        one.model_copy(
            update={
                "rates": None, "arrival": None, "think_time_ns": 0, "operations": None,
                "clients": clients.get(one.name, one.clients),
            }
        )
        for one in spec.workload.groups
    ]  # fmt: skip
    return replace(
        spec,
        workload=spec.workload.model_copy(update={"groups": tuple(groups)}),
        clients=None,
        rate=None,
        arrival=None,
        duration_ns=duration_ns,
        operations=None,
        until_stderr=None,
        precision=None,
        warmup_ns=0,
        warmup_until=None,
        interval_ns=None,
        settle=settle,
        faults=(),
        verify=False,
    )


def only_reads(spec: RunSpec) -> bool:
    """Whether the records are afterwards as they were."""
    groups = _measured(compile_run(spec))
    return {operation.kind for group in groups for operation in group.mix} <= _READS


def _measured(plan: Plan) -> list[Group]:
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    return [plan.groups[active.group] for active in measured.groups]
