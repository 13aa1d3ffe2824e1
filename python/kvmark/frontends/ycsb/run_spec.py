"""YCSB's properties as a run: one step of its sequence on one system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kvmark.errors import SpecError
from kvmark.frontends.ycsb.workloads import CORE_WORKLOADS, YcsbProperties, core_workload
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import WorkloadSpec

STEPS: Final = ("load", *CORE_WORKLOADS, "delete", "run")
"""The steps of a sequence; `run` is the transactions that the properties themselves describe."""

_DELETE_EACH: Final = {"mix": {"delete": 1.0}, "keys": "sequential"}


def ycsb_run(
    step: str,
    properties: YcsbProperties,
    system: SystemUrl,
    *,
    records: int | None = None,
    operations: int | None = None,
    **more: Any,
) -> RunSpec:
    """One step as a run.

    A core workload's own properties are overridden by those that were given. `records` is the
    number of records there are when the step begins, so after a step that inserted it is larger;
    with `operations` it overrides the properties. `more` are `RunSpec`'s fields and override what
    follows from the properties.
    """
    if step not in STEPS:
        raise SpecError(f"there is no YCSB step {shown(step)}{did_you_mean(step, STEPS)}")
    properties.check_driver(system.driver)
    if step != "load" and not properties.dotransactions:
        raise properties.error("dotransactions", f"asks for the load, but the step is {step}")
    if step in CORE_WORKLOADS:
        properties = properties.over(core_workload(step))
    sized = properties.with_sizes(records, operations)
    workload = _workload(step, sized)
    # Load and delete take each record once, so operationcount is not theirs.
    count = None if workload.once_per_record else sized.operationcount or None
    limit_s = sized.maxexecutiontime_s
    ends = (count, limit_s or None, more.get("duration_ns"), more.get("until_stderr"))
    if not workload.once_per_record and all(end is None for end in ends):
        raise sized.error("operationcount", "is missing, and nothing else ends the run")
    decided: dict[str, Any] = {
        "workload": workload,
        "system": system,
        "operations": count,
        "duration_ns": limit_s * 10**9 if limit_s else None,
        "clients": sized.threadcount,
        "rate": float(sized.target) if sized.target else None,
        "load": "never",
        "settle": False,
    }
    if sized.status_interval_s is not None:
        decided["interval_ns"] = sized.status_interval_s * 10**9
    return RunSpec(**{**decided, **more})


def _workload(step: str, properties: YcsbProperties) -> WorkloadSpec:
    if step == "load":
        return properties.to_load("ycsb/load")
    if step == "delete":
        loaded = {**properties.to_load("ycsb/delete").model_dump(by_alias=True)}
        dataset = {**loaded["dataset"], "loaded": True}
        content = {**loaded, "dataset": dataset, "groups": [_DELETE_EACH]}
        return WorkloadSpec.model_validate(content)
    if step == "run":
        return properties.to_workload("ycsb/run")
    workload = properties.to_workload(f"ycsb/{step}")
    original = replace(
        core_workload(step),
        recordcount=properties.recordcount,
        operationcount=properties.operationcount,
        insertstart=properties.insertstart,
        insertcount=properties.insertcount,
    )
    if workload.groups == original.to_workload(workload.name).groups:
        return workload
    # A table must not show as workload A what is not A.
    return workload.model_copy(update={"name": f"{workload.name}-modified"})
