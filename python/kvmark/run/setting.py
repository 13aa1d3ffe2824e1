"""What all runs of one command share: where it runs, with what, and what the engine costs here."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import kvmark
from kvmark import _engine
from kvmark.plan.model import Closed, Plan, System
from kvmark.records import RunFolder
from kvmark.testbed.host import describe_host

if TYPE_CHECKING:
    from kvmark.run.prometheus import Exporter

__all__ = ["Fleet", "Setting", "engine_overhead_ns", "make_setting"]

_CALIBRATION_OPERATIONS: Final = 20_000


class Fleet(Protocol):
    """Machines that generate load together instead of this process."""

    def generate(
        self,
        plan: Plan,
        folder: RunFolder,
        progress: Callable[[Mapping[str, Any]], object],
        may_begin: Callable[[str], bool] | None,
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
    overhead_ns = engine_overhead_ns(plan)
    host = {**describe_host(), "engine_overhead_ns_per_operation": round(overhead_ns, 1)}
    versions = {
        "kvmark": kvmark.__version__,
        "engine": f"{_engine.version} ({_engine.build_profile})",
        "Python": platform.python_version(),
    }
    return Setting(command, host, versions, tags, commit)


def engine_overhead_ns(plan: Plan) -> float:
    """What the engine adds per operation: the plan's mix on the null driver, one client."""
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
