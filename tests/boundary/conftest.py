"""Plans that are quick to make, for what goes through the door between Python and the engine."""

from collections.abc import Callable
from typing import Any

import pytest

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

MakePlan = Callable[..., Plan]


@pytest.fixture
def make_plan() -> MakePlan:
    """Makes the plan of a ready workload on a system; more fields of the spec by name."""

    def make(workload: str, system: str, **more: Any) -> Plan:
        url = parse_system_url(system)
        given: dict[str, Any] = {"load": "never", **more}
        return compile_run(RunSpec(workload=catalog.load(workload), system=url, **given), cores=2)

    return make
