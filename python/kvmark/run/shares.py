"""Divides a run among the machines of a fleet: pure functions from one plan to several.

The plans differ only in `share`, from which the engine derives its operations, clients and inserts.
Client number c is in share c modulo the number of shares, and executes the arrivals that are
congruent to c modulo the number of clients. In the closed model, operation number n is in share n
modulo the number of shares, and so is the n-th insert in all models. Together, the shares execute
exactly the operations of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from kvmark.drivers import is_embedded
from kvmark.errors import UsageError
from kvmark.plan.model import Plan


def check_divisible(plan: Plan) -> None:
    """Refuses a plan that isn't possible on several machines.

    Raises:
        UsageError: names the reason.
    """
    driver = plan.system.driver
    if is_embedded(driver):
        raise UsageError(
            f"fleet: {driver} is embedded, so that each machine would have a database of its own;"
            " leave --fleet out, or measure a server"
        )
    if plan.system.options.get("clock") == "virtual":
        raise UsageError(
            f"fleet: the virtual clock of {driver}: is that of one process, and machines meet at an"
            " instant; leave out clock=virtual"
        )
    if any(phase.name == "verify" for phase in plan.phases):
        raise UsageError(
            "fleet: --verify compares the records with the writes of one engine, and all machines"
            " write the same records; leave out --verify, or run it without --fleet"
        )


def check_reachable(plan: Plan, machines: Iterable[str], here: str) -> None:
    """Refuses a system on the loopback address of a fleet that is more than this machine.

    Raises:
        UsageError: names the address.
    """
    address = plan.system.options.get("address")
    others = [machine for machine in machines if machine != here and not _is_loopback(machine)]
    if isinstance(address, str) and others and any(map(_is_loopback, address.split(","))):
        raise UsageError(
            f"fleet: {address} means each machine itself, and {others[0]} is another one than this;"
            " name the server's own address in --system"
        )


def machines_used(plan: Plan, machines: int) -> int:
    """The number of machines that a run can use: each needs a client of each group."""
    return min([machines, *(max(group.clients, 1) for group in plan.groups)])


def clients_of(clients: int, index: int, of: int) -> int:
    """The number of a group's clients in a share: as equal as possible, the first have more."""
    return clients // of + (index < clients % of)


def first_insert(plan: Plan, phase: str) -> int:
    """The ordinal of the first insert in a phase of this name."""
    return plan.dataset.start + (0 if phase == "load" else plan.dataset.count)


def acknowledged(frontiers: Sequence[int], start: int) -> int:
    """The first ordinal that its share hasn't acknowledged.

    Args:
        frontiers: the shares' own frontiers, by index.
        start: the ordinal of the first insert.
    """
    of = len(frontiers)
    # The least ordinal of each share at or after its frontier.
    return min(
        start + index + max(0, -(-(frontier - start - index) // of)) * of
        for index, frontier in enumerate(frontiers)
    )


def _is_loopback(address: str) -> bool:
    whole = address.strip()
    host, _, port = whole.rpartition(":")
    host = (host if port.isdigit() and host else whole).strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
