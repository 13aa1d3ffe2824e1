"""Plans that are quick to make, for what goes through the door between Python and the engine.

Property tests draw the same examples on every machine and are not timed.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from kvmark import catalog
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

settings.register_profile("kvmark", derandomize=True, deadline=None)
settings.load_profile("kvmark")

MakePlan = Callable[..., Plan]


@pytest.fixture
def make_plan() -> MakePlan:
    """Makes the plan of a ready workload on a system; more fields of the spec by name."""

    def make(workload: str, system: str, **more: Any) -> Plan:
        url = parse_system_url(system)
        given: dict[str, Any] = {"load": "never", **more}
        return compile_run(RunSpec(workload=catalog.load(workload), system=url, **given), cores=2)

    return make
