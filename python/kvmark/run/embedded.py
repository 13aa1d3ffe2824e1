"""Embedded systems, which the engine makes where they are not there."""

from __future__ import annotations

from kvmark.drivers import is_embedded
from kvmark.plan.model import Plan

__all__ = ["created_on_demand"]


def created_on_demand(plan: Plan) -> Plan:
    """The plan, with its system made where there is none, if the plan puts records in it."""
    if not is_embedded(plan.system.driver) or "create" in plan.system.options:
        return plan
    if not (plan.dataset.count == 0 or any(phase.name == "load" for phase in plan.phases)):
        return plan
    options = {**plan.system.options, "create": "true"}
    return plan.model_copy(update={"system": plan.system.model_copy(update={"options": options})})
