"""The machines that generate the load of a command, where a fleet was named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kvmark.errors import SpecError
from kvmark.plan.model import Plan
from kvmark.run import Setting
from kvmark.run.shares import check_divisible

__all__ = ["AskedFleet", "asked_fleet", "on_fleet"]


@dataclass(frozen=True, slots=True)
class AskedFleet:
    """What the user said of the machines."""

    address: str
    machines: int | None


def asked_fleet(address: str | None, machines: int | None) -> AskedFleet | None:
    """The fleet that was named, if one was.

    Raises:
        SpecError: machines are asked for and no fleet.
    """
    if address is None:
        if machines is not None:
            raise SpecError("--machines counts the machines of a fleet: give --fleet ADDRESS too")
        return None
    return AskedFleet(address, machines)


@contextmanager
def on_fleet(setting: Setting, asked: AskedFleet | None, plan: Plan) -> Iterator[Setting]:
    """The setting in which runs like this plan go on a fleet; the same one where none was named.

    Raises:
        UsageError: the plan makes no sense there, or the fleet can't be joined.
    """
    if asked is None:
        yield setting
        return
    check_divisible(plan)
    # Only those who have a fleet pay for it.
    from kvmark.run.fleet import joined

    with joined(asked.address, asked.machines) as fleet:
        yield replace(setting, fleet=fleet)
