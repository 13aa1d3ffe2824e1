"""What all runs of one command share: where it runs, with what, and what the engine costs here."""

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

_CALIBRATIONS: Final = 5
"""How often the engine's cost is measured: what takes a core away for a while spoils few."""
_CALIBRATION_OPERATIONS: Final = 4_000
_CALIBRATION_NS: Final = 50_000_000
"""Of each, at most: making large values takes long."""
_DISTURBED: Final = 2.0
"""Where the median is so many times the least, most calibrations measured something else too."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Kept in the manifest of each run of a command."""

    command: tuple[str, ...]
    #: Who generates the load. Not kept; what comes of it is.
    generator: Generator
    #: Where runs are kept.
    records: Records
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    tags: tuple[str, ...] = ()
    commit: str | None = None
    #: Who is told of each run while it goes. Not kept.
    exporter: Exporter | None = None
    #: Where measured operations are logged, and what their keys are hashed with. Not kept.
    recording: tuple[Path, bytes] | None = None
    #: What the engine costs with the plans of some cases, by their titles, beside the host's.
    overheads: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    #: How long the system may be silent in any run of the command, 0 for no limit; None where each
    #: run has a limit of its own. Not kept: it stands in the plan.
    stall_limit_ns: int | None = None

    def applied_to(self, plan: Plan) -> Plan:
        """The plan with what holds for all runs of the command."""
        if self.stall_limit_ns is None:
            return plan
        return plan.model_copy(update={"stall_limit_ns": self.stall_limit_ns or None})


def make_setting(
    command: tuple[str, ...],
    plan: Plan,
    generator: LocalGenerator,
    records: Records,
    tags: tuple[str, ...] = (),
    commit: str | None = None,
) -> Setting:
    """Looks at the host and measures the engine with this plan's workload on the null driver."""
    host = {**describe_host(), **engine_overhead(plan, generator)}
    versions = {
        "kvmark": kvmark.__version__,
        "engine": f"{_engine.version} ({_engine.build_profile})",
        "Python": platform.python_version(),
    }
    return Setting(command, generator, records, host, versions, tags, commit)


def engine_overhead(plan: Plan, generator: LocalGenerator) -> dict[str, float | None]:
    """What the engine adds per operation, for a manifest: the plan's mix on the null driver."""
    calibration = _calibration(plan).to_json()
    return overhead_of([_overhead_ns(calibration, generator) for _ in range(_CALIBRATIONS)])


def overhead_of(costs_ns: Sequence[float]) -> dict[str, float | None]:
    """What calibrations say together: their least, or else how far apart they are.

    Whatever disturbs one makes it dearer, so that the least is the engine's own cost.
    """
    least, median = min(costs_ns), statistics.median(costs_ns)
    if median <= _DISTURBED * least:
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
    group = plan.groups[active.group].model_copy(update={"clients": 1, "check_values": "none"})
    group = group.model_copy(update={"arrival": _as_fast_as_it_goes(group.arrival)})
    part = active.model_copy(update={"group": 0, "operations": _CALIBRATION_OPERATIONS})
    phase = measured.model_copy(
        update={"groups": (part,), "duration_ns": _CALIBRATION_NS, "until": None}
    )
    update = {
        "system": System(driver="null", options={}),
        "groups": (group,),
        "phases": (phase,),
        "pin": plan.pin[:1],
    }
    return plan.model_copy(update=update)


def _as_fast_as_it_goes(arrival: Arrival) -> Arrival:
    if isinstance(arrival, OnTape):
        again = arrival.model_copy(update={"speed": None, "loops": _CALIBRATION_OPERATIONS})
        return again.model_copy(update={"length_ns": 0})
    return Closed(process="closed", think_time_ns=0)


def _overhead_ns(calibration: str, generator: LocalGenerator) -> float:
    with tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
        answer = generator.run(calibration, Path(folder), Caller(lambda _: None))
    window = answer["record"]["phases"][0]
    completed = sum(int(group["completed"]) for group in window["groups"])
    return float(window["end_ns"] - window["start_ns"]) / max(completed, 1)
