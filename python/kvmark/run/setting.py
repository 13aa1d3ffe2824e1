"""What all runs of one command share: where it runs, with what, and what the engine costs here."""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import kvmark
from kvmark import _engine
from kvmark.plan.model import Closed, Plan, System
from kvmark.records import RunFolder
from kvmark.testbed.host import describe_host

if TYPE_CHECKING:
    from kvmark.run.prometheus import Exporter

__all__ = ["Fleet", "Setting", "engine_overhead", "make_setting", "overhead_of"]

_CALIBRATIONS: Final = 5
"""How often the engine's cost is measured: what takes a core away for a while spoils few."""
_CALIBRATION_OPERATIONS: Final = 4_000
_DISTURBED: Final = 2.0
"""Where the median is so many times the least, most calibrations measured something else too."""


class Fleet(Protocol):
    """Machines that generate load together instead of this process."""

    def generate(
        self,
        plan: Plan,
        folder: RunFolder,
        progress: Callable[[Mapping[str, Any]], object],
        may_begin: Callable[[str], bool] | None,
        may_go_on: Callable[[], bool] | None,
        *,
        all_cores: bool,
    ) -> Mapping[str, Any]:
        """Carries out a plan and returns what an engine returns.

        With `all_cores` each machine has a worker on each of its own cores.
        """


@dataclass(frozen=True, slots=True)
class Setting:
    """Kept in the manifest of each run of a command."""

    command: tuple[str, ...]
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    tags: tuple[str, ...] = ()
    commit: str | None = None
    #: Who is told of each run while it goes. Not kept.
    exporter: Exporter | None = None
    #: Who generates the load where it isn't this process. What comes of it is kept.
    fleet: Fleet | None = None


def make_setting(
    command: tuple[str, ...],
    plan: Plan,
    tags: tuple[str, ...] = (),
    commit: str | None = None,
) -> Setting:
    """Looks at the host and measures the engine with this plan's workload on the null driver."""
    host = {**describe_host(), **engine_overhead(plan)}
    versions = {
        "kvmark": kvmark.__version__,
        "engine": f"{_engine.version} ({_engine.build_profile})",
        "Python": platform.python_version(),
    }
    return Setting(command, host, versions, tags, commit)


def engine_overhead(plan: Plan) -> dict[str, float | None]:
    """What the engine adds per operation, for a manifest: the plan's mix on the null driver."""
    return overhead_of([_overhead_ns(plan) for _ in range(_CALIBRATIONS)])


def overhead_of(costs_ns: Sequence[float]) -> dict[str, float | None]:
    """What calibrations say together: their median, or else how far apart they are."""
    least, median = min(costs_ns), statistics.median(costs_ns)
    if median <= _DISTURBED * least:
        return {"engine_overhead_ns_per_operation": round(median, 1)}
    return {
        "engine_overhead_ns_per_operation": None,
        "engine_overhead_ns_least": round(least, 1),
        "engine_overhead_ns_median": round(median, 1),
    }


def _overhead_ns(plan: Plan) -> float:
    """One calibration, with one client."""
    measured = next(phase for phase in plan.phases if phase.name == "measure")
    active = measured.groups[0]
    group = plan.groups[active.group].model_copy(update={"clients": 1, "check_values": False})
    group = group.model_copy(update={"arrival": Closed(process="closed", think_time_ns=0)})
    part = active.model_copy(update={"group": 0, "operations": _CALIBRATION_OPERATIONS})
    phase = measured.model_copy(update={"groups": (part,), "duration_ns": None, "until": None})
    update = {
        "system": System(driver="null", options={}),
        "groups": (group,),
        "phases": (phase,),
        "pin": plan.pin[:1],
    }
    calibration = plan.model_copy(update=update)
    with tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
        text = _engine.run(calibration.to_json(), folder, lambda _: None)
    record = json.loads(text)["record"]
    window = record["phases"][0]
    return float(window["end_ns"] - window["start_ns"]) / _CALIBRATION_OPERATIONS
