"""Embedded systems, which the engine makes where they are not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvmark.drivers import is_embedded
from kvmark.errors import GeneratorDied, KvmarkError, SystemUnderTestError
from kvmark.plan.model import Plan
from kvmark.testbed.systems import STORES

__all__ = ["created_on_demand", "removed_if_refused"]


def created_on_demand(plan: Plan) -> Plan:
    """The plan, with its system made where there is none, if the plan puts records in it."""
    if not is_embedded(plan.system.driver) or "create" in plan.system.options:
        return plan
    if not (plan.dataset.count == 0 or any(phase.name == "load" for phase in plan.phases)):
        return plan
    options = {**plan.system.options, "create": "true"}
    return plan.model_copy(update={"system": plan.system.model_copy(update={"options": options})})


@contextmanager
def removed_if_refused(plan: Plan) -> Iterator[None]:
    """Removes a database that was made only now when the run within can't begin."""
    path = plan.system.options.get("path")
    is_folder = is_embedded(plan.system.driver) and isinstance(path, str)
    made = is_folder and not Path(str(path)).exists()
    try:
        yield
    except GeneratorDied:
        # It had begun, and what it left may tell why it died.
        raise
    except KvmarkError:
        if made:
            # Files of others would be a reason to keep the folder, not to hide why it was refused.
            with suppress(SystemUnderTestError):
                contents = STORES[plan.system.driver].contents({"path": str(path)}, None)
                if contents is not None:
                    contents.remove()
        raise
