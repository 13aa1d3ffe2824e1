"""Plans of ready workloads."""

from typing import Any

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url


def plan_of(workload: str, system: str = "null:", **options: Any) -> Plan:
    """The plan of one run, by the fields of its `RunSpec`."""
    url = parse_system_url(system)
    return compile_run(RunSpec(workload=catalog.load(workload), system=url, **options))
