"""A trace and its workload as the two sides of a comparison on one system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark import catalog
from kvmark.errors import UsageError
from kvmark.learn.drawn import MODELLED
from kvmark.spec.curve import parse_curve
from kvmark.spec.replay import ReplaySpec
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import GroupSpec, Mix, RatePoint, WorkloadSpec
from kvmark.trace import KINDS, Trace

__all__ = ["AskedCheck", "twin_sides"]

_LONGEST_NS: Final = 30 * 10**9
"""How long a side of a block is measured at most, when not said."""
_STATEMENTS: Final = {"read": "READ", "delete": "DELETE"}
"""Statements of a replay by kind; all others write."""
_WRITE: Final = "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCheck:
    """How a workload is held against its trace."""

    system: SystemUrl
    speed: float | None
    """How many times as fast as the trace; None for as fast as clients go."""
    clients: int | None
    duration_ns: int | None
    map_file: Path | None


def twin_sides(trace: Trace, workload: WorkloadSpec, asked: AskedCheck) -> tuple[RunSpec, RunSpec]:
    """The replay and the workload, for as long and by the same statements.

    Raises:
        SpecError: one of both can't be.
        UsageError: the workload isn't one that can stand for a trace.
    """
    if len(workload.groups) != 1:
        raise UsageError(
            f"{workload.name} has {len(workload.groups)} groups: what stands for a trace has one"
        )
    replayed = catalog.of_trace(trace.path, asked.system.driver, asked.map_file)
    ends_ns, count = asked.duration_ns, None
    if asked.speed is None:
        kinds = trace.kinds()
        count = sum(kinds.get(kind, 0) for kind in MODELLED)
    elif ends_ns is None:
        ends_ns = max(1, min(_LONGEST_NS, round(trace.info.end_ns / asked.speed)))
    group = _at_speed(workload.groups[0], asked.speed, ends_ns or 1)
    twin = _spoken(workload.model_copy(update={"groups": (group,)}), replayed)
    skip = tuple(kind for kind in KINDS if kind not in MODELLED)
    # The workload's operations don't wait for one another, and so mustn't those of the trace.
    replay = ReplaySpec(trace=trace.path, speed=asked.speed, skip=skip, order="none")
    return tuple(  # type: ignore[return-value]
        RunSpec(
            workload=one,
            system=asked.system,
            clients=asked.clients,
            duration_ns=ends_ns,
            operations=count,
            replay=how,
            # A replay loads what it reads first each time, whatever was deleted since.
            load="always" if how is None and one.is_loaded_first else "auto",
        )
        for one, how in ((replayed, replay), (twin, None))
    )


def _at_speed(group: GroupSpec, speed: float | None, ends_ns: int) -> GroupSpec:
    """The group with its rates so many times as high, and changing as many times as soon."""
    if speed is None:
        return group.model_copy(update={"rates": None, "arrival": None})
    if speed == 1 or group.rates is None:
        return group
    if isinstance(group.rates, str):
        points = parse_curve(group.rates).points(round(ends_ns * speed) + 1, 1)
    else:
        points = tuple((one.at_ns, one.rate) for one in group.rates)
    rates: list[RatePoint] = []
    for at_ns, rate in points:
        faster_ns = round(at_ns / speed)
        if not rates or faster_ns > rates[-1].at_ns:
            rates.append(RatePoint.model_construct(at_ns=faster_ns, rate=rate * speed))
    return group.model_copy(update={"rates": tuple(rates)})


def _spoken(workload: WorkloadSpec, replayed: WorkloadSpec) -> WorkloadSpec:
    """The workload by the replay's statements, where it has none of its own."""
    if workload.statements or not replayed.statements:
        return workload
    group = workload.groups[0]
    weights: dict[str, float] = {}
    for kind, weight in group.mix.weights().items():
        name = _STATEMENTS.get(kind, _WRITE)
        weights[name] = weights.get(name, 0.0) + weight
    missing = [name for name in weights if name not in replayed.statements]
    if missing:
        raise UsageError(f"--map: there is no statement {missing[0]}, which {workload.name} needs")
    taken: Mapping[str, object] = {
        name: one
        for name, one in replayed.statements.items()
        if not one.is_told(replayed.arguments)
    }
    return workload.model_copy(
        update={
            "groups": (group.model_copy(update={"mix": Mix.model_validate(weights)}),),
            "prepare": replayed.prepare,
            "arguments": replayed.arguments,
            "statements": taken,
            "load": replayed.load,
            "probe": replayed.probe,
        }
    )
