"""Embedded systems, which the engine makes where they are not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvmark.errors import KvmarkError, SystemUnderTestError
from kvmark.plan.model import Plan
from kvmark.testbed.rocksdb import remove_database

__all__ = ["created_on_demand", "removed_if_refused"]

_CREATED: frozenset[str] = frozenset({"rocksdb"})
"""Drivers whose option `create` says so."""


def created_on_demand(plan: Plan) -> Plan:
    """The plan, with its system made where there is none, if the plan puts records in it."""
    if plan.system.driver not in _CREATED or "create" in plan.system.options:
        return plan
    if not (plan.dataset.count == 0 or any(phase.name == "load" for phase in plan.phases)):
        return plan
    options = {**plan.system.options, "create": "true"}
    return plan.model_copy(update={"system": plan.system.model_copy(update={"options": options})})


@contextmanager
def removed_if_refused(plan: Plan) -> Iterator[None]:
    """Removes a database that was made only now when the run within can't begin."""
    path = plan.system.options.get("path")
    made = plan.system.driver in _CREATED and isinstance(path, str) and not Path(path).exists()
    try:
        yield
    except KvmarkError:
        if made:
            # Files of others would be a reason to keep the folder, not to hide why it was refused.
            with suppress(SystemUnderTestError):
                remove_database(Path(str(path)))
        raise
