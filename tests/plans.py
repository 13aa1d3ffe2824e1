"""Plans of runs, and values in them."""

from typing import Any

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.faults import parse_fault
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import WorkloadSpec, parse_workload


def spec_of(workload: str | WorkloadSpec, system: str = "null:", **options: Any) -> RunSpec:
    """A run of a ready workload, a file's text or a workload, by the fields of its `RunSpec`.

    Lists may stand for tuples and sentences for faults, as in tables.
    """
    fields = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
    if "faults" in fields:
        fields["faults"] = tuple(map(parse_fault, fields["faults"]))
    if isinstance(workload, str):
        is_file = "groups:" in workload
        workload = parse_workload(workload, "w.yaml") if is_file else catalog.load(workload)
    return RunSpec(workload=workload, system=parse_system_url(system), **fields)


def plan_of(workload: str | WorkloadSpec, system: str = "null:", **options: Any) -> Plan:
    """The plan of such a run on two cores."""
    return compile_run(spec_of(workload, system, **options), cores=2)


def at(plan: Plan, path: str) -> Any:
    """The value at a place of a plan's document; with `*`, of each element; None for none."""

    def below(value: Any, parts: list[str]) -> Any:
        if not parts or value is None:
            return value
        part, *rest = parts
        if part == "*":
            return [below(one, rest) for one in value]
        return below(value[int(part)] if isinstance(value, list) else value.get(part), rest)

    return below(plan.model_dump(mode="json", exclude_none=True), path.split("."))
