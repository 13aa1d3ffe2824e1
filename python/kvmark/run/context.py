"""The context of all runs of one command: generator, records, host, versions, engine overhead."""

from __future__ import annotations

import platform
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import kvmark
from kvmark import _engine
from kvmark.plan.model import Arrival, Closed, OnTape, Plan, System
from kvmark.records import Records
from kvmark.run.generator import Caller, Generator, LocalGenerator
from kvmark.testbed.host import describe_host

if TYPE_CHECKING:
    from kvmark.run.prometheus import Exporter
    from kvmark.testbed.sources.sample import Source

_CALIBRATIONS: Final = 5
"""Repetitions, so that other load on the core disturbs only few."""
_CALIBRATION_OPERATIONS: Final = 4_000
_CALIBRATION_NS: Final = 50_000_000
"""The limit for each: large values take long."""
_MOST_RATIO: Final = 2.0
"""With a higher ratio of median to minimum, most calibrations were disturbed."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The values that all runs of a command share. Manifests have those not marked otherwise."""

    command: tuple[str, ...]
    generator: Generator
    """Not in manifests."""
    records: Records
    """The folder of runs."""
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    tags: tuple[str, ...] = ()
    commit: str | None = None
    exporter: Exporter | None = None
    """Exports live figures. Not in manifests."""
    observed: tuple[Source, ...] = ()
    """The observed servers that kvmark didn't start. Manifests name them."""
    recording: tuple[Path, bytes] | None = None
    """The log of measured operations, and the hash key of their keys. Not in manifests."""
    overheads: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """The engine's overhead with the plans of some cases, by their titles."""
    stall_limit_ns: int | None = None
    """The stall limit of all runs, 0 for none; None if each plan has its own. Part of the plan."""

    def applied_to(self, plan: Plan) -> Plan:
        """The plan with the command's stall limit."""
        if self.stall_limit_ns is None:
            return plan
        return plan.model_copy(update={"stall_limit_ns": self.stall_limit_ns or None})


def make_run_context(
    command: tuple[str, ...],
    plan: Plan,
    generator: LocalGenerator,
    records: Records,
    tags: tuple[str, ...] = (),
    commit: str | None = None,
) -> RunContext:
    """Inspects the host and measures the engine's overhead with this plan's workload."""
    host = {**describe_host(), **engine_overhead(plan, generator)}
    versions = {
        "kvmark": kvmark.__version__,
        "engine": f"{_engine.version} ({_engine.build_profile})",
        "Python": platform.python_version(),
    }
    return RunContext(command, generator, records, host, versions, tags, commit)


def engine_overhead(plan: Plan, generator: LocalGenerator) -> dict[str, float | None]:
    """The engine's overhead per operation, for a manifest: the plan's mix on the null driver."""
    calibration = _calibration(plan).to_json()
    costs_ns: list[float] = []
    for _ in range(_CALIBRATIONS):
        with tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
            answer = generator.run(calibration, Path(folder), Caller(lambda _: None))
        window = answer["record"]["phases"][0]
        completed = sum(int(group["completed"]) for group in window["groups"])
        costs_ns.append(float(window["end_ns"] - window["start_ns"]) / max(completed, 1))
    return overhead_of(costs_ns)


def overhead_of(costs_ns: Sequence[float]) -> dict[str, float | None]:
    """The minimum of the calibrations; if they were disturbed, their minimum and median instead.

    A disturbance only raises the cost, so the minimum is the engine's own.
    """
    least, median = min(costs_ns), statistics.median(costs_ns)
    if median <= _MOST_RATIO * least:
        return {"engine_overhead_ns_per_operation": round(least, 1)}
    return {
        "engine_overhead_ns_per_operation": None,
        "engine_overhead_ns_least": round(least, 1),
        "engine_overhead_ns_median": round(median, 1),
    }


def _calibration(plan: Plan) -> Plan:
    """The plan's mix on the null driver, with one client."""
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    active = measured.groups[0]
    group = plan.groups[active.group]
    arrival: Arrival = Closed(process="closed", think_time_ns=0)
    if isinstance(group.arrival, OnTape):
        fast = {"speed": None, "loops": _CALIBRATION_OPERATIONS, "length_ns": 0}
        arrival = group.arrival.model_copy(update=fast)
    one_client = {"clients": 1, "check_values": "none", "arrival": arrival}
    part = active.model_copy(update={"group": 0, "operations": _CALIBRATION_OPERATIONS})
    short = {"groups": (part,), "duration_ns": _CALIBRATION_NS, "until": None}
    update = {
        "system": System(driver="null", options={}),
        "groups": (group.model_copy(update=one_client),),
        "phases": (measured.model_copy(update=short),),
        "pin": plan.pin[:1],
    }
    return plan.model_copy(update=update)
