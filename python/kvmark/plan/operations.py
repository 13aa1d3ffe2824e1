"""The names that a plan's operations have in records, before any of them is measured."""

from __future__ import annotations

from kvmark.plan.model import Plan

__all__ = ["operation_names"]


def operation_names(plan: Plan) -> tuple[str, ...]:
    """Those of the measured groups: a statement's name, or the kind's."""
    found: dict[str, None] = {}
    measured = [phase for phase in plan.phases if phase.name == "measure"]
    groups = {active.group for phase in measured for active in phase.groups}
    for index in sorted(groups):
        for entry in plan.groups[index].mix:
            if entry.statement is None:
                found[entry.kind.replace("_", "-").upper()] = None
                # Its parts are told apart too.
                parts = ("READ", "UPDATE") if entry.kind == "read_modify_write" else ()
                found |= dict.fromkeys(parts)
                continue
            statement = plan.statements[entry.statement]
            found[statement.name] = None
            if statement.when_full is not None:
                found[plan.statements[statement.when_full].name] = None
    return tuple(found)
