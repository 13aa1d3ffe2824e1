"""Who serves a plan's system: a testbed that kvmark started, or a server elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.plan.model import Plan
from kvmark.spec.faults import FaultSpec
from kvmark.testbed.control import check_disturbance, describe, promotion_of
from kvmark.testbed.network import Disturbance
from kvmark.testbed.state import Testbed, owner_of

__all__ = ["Served", "disturbance_of", "served_by"]


@dataclass(frozen=True, slots=True)
class Served:
    """What is known of the servers, for the manifest, the sampler and the faults."""

    testbed: Testbed | None
    description: Mapping[str, Any] | None
    """None where the system lives in this process, so that there is no server."""
    behind: Testbed | None = None
    """The system, where the testbed is a proxy before it and it is one of ours too."""

    @property
    def testbeds(self) -> tuple[Testbed, ...]:
        """All whose servers have a part in what is measured."""
        return tuple(one for one in (self.testbed, self.behind) if one is not None)

    def check_faults(self, faults: Sequence[FaultSpec]) -> None:
        """Refuses faults that can't be carried out here, before anything begins.

        Raises:
            UsageError: no testbed serves the system, it has no server of that name, or links can't
                be disturbed here.
        """
        for fault in faults:
            if self.testbed is None:
                raise UsageError(
                    f"fault '{fault.text}': only servers that kvmark started can be broken on"
                    " purpose; start one with kvmark up and name its URL in --system"
                )
            try:
                self.testbed.node(fault.node)
                if fault.do == "promote":
                    promotion_of(self.testbed).check(self.testbed, fault.node)
                if fault.is_of_link:
                    check_disturbance(self.testbed, disturbance_of(fault))
            except UsageError as problem:
                raise UsageError(f"fault '{fault.text}': {problem}") from None


def disturbance_of(fault: FaultSpec) -> Disturbance:
    """What a fault of a link does to it."""
    if fault.do not in ("delay", "loss", "partition"):
        raise ValueError(f"{fault.do} is done to a process")
    return Disturbance(fault.do, fault.delay_ns, fault.loss, fault.others)


def served_by(plan: Plan) -> Served:
    """Looks for the testbed that a plan's address belongs to.

    Raises:
        SystemUnderTestError: it is there, and its servers don't say how they are set.
    """
    address = plan.system.options.get("address")
    if not isinstance(address, str):
        return Served(None, None)
    try:
        testbed = owner_of(address)
        reason = f"no testbed in use here has a server at {address}"
    except SystemUnderTestError as problem:
        # Another testbed's damage is no reason not to measure this server.
        testbed, reason = None, str(problem)
    if testbed is None:
        return Served(None, {"observed": False, "reason": reason})
    described = {"observed": True, **describe(testbed)}
    if "behind" not in testbed.facts:
        return Served(testbed, described)
    behind = owner_of(testbed.facts["behind"])
    known = {"observed": False} if behind is None else {"observed": True, **describe(behind)}
    return Served(testbed, {**described, "behind": known}, behind)
