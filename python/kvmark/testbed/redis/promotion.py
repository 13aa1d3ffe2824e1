"""A replica takes its primary's place, and gives it back: what a watchdog of Redis would do.

Clients know one address, which goes over to the new primary with its work, as with a virtual
address on a network. So their connections are reset and they connect again. What the old primary
had acknowledged and not passed on is lost, if it is gone for good or has to follow the new one.
"""

from __future__ import annotations

from contextlib import suppress

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.console import connect
from kvmark.testbed.network import Network, move_service
from kvmark.testbed.process import wait_until
from kvmark.testbed.redis.health import is_in_step, leads
from kvmark.testbed.state import Node, Testbed

__all__ = ["check_promotion", "demote", "promote"]

_WITHIN_S = 60.0


def check_promotion(testbed: Testbed, name: str) -> None:
    """Makes sure that a server of a testbed can be promoted.

    Raises:
        UsageError: it can't.
    """
    _service(testbed)
    if testbed.node(name).role != "replica":
        raise UsageError(f"{name} is no replica, and only those can be promoted")


def promote(testbed: Testbed, name: str) -> None:
    """Makes a replica the primary, gives it the clients' address, and lets the others follow it.

    Others that are gone, or can't be reached, are left alone.

    Raises:
        SystemUnderTestError: the replica doesn't do it.
    """
    node = testbed.node(name)
    _ask(testbed, node, "REPLICAOF", "NO", "ONE")
    move_service(_service(testbed), name)
    for other in testbed.nodes:
        if other != node:
            with suppress(SystemUnderTestError):
                _follow(testbed, other, node)


def demote(testbed: Testbed, name: str) -> None:
    """Gives the place back to the first primary, which has the replica's data by then.

    The servers do it in order (FAILOVER, since Redis 6.2), so that nothing is lost.

    Raises:
        SystemUnderTestError: a server is gone, or the time is over.
    """
    primary, promoted = testbed.nodes[0], testbed.node(name)
    _follow(testbed, primary, promoted)
    watched = testbed.watched(primary, promoted)
    wait_until(lambda: is_in_step(testbed, primary), f"follow {name}", watched, _WITHIN_S)
    what = f"take its place back from {name}"
    wait_until(lambda: _hands_over(testbed, promoted, primary), what, watched, _WITHIN_S)
    wait_until(lambda: leads(testbed, primary), what, watched, _WITHIN_S)
    move_service(_service(testbed), primary.name)
    for node in testbed.nodes:
        if node not in (primary, promoted):
            _follow(testbed, node, primary)


def _service(testbed: Testbed) -> Network:
    """The network whose clients' address can go over to another server."""
    if testbed.facts.get("cluster"):
        raise UsageError(
            f"testbed {testbed.name} is a cluster, which promotes replicas itself: kill a primary"
        )
    if testbed.network is None:
        raise UsageError(
            f"the clients of testbed {testbed.name} couldn't find another primary: start it with"
            " kvmark up redis --replicas 1 --network, as root"
        )
    return testbed.network


def _follow(testbed: Testbed, node: Node, primary: Node) -> None:
    _ask(testbed, node, "REPLICAOF", primary.host, primary.port)


def _hands_over(testbed: Testbed, node: Node, to: Node) -> bool:
    """Whether a primary begins to; it may not know yet that the other follows it."""
    try:
        _ask(testbed, node, "FAILOVER", "TO", to.host, to.port)
    except SystemUnderTestError:
        return False
    return True


def _ask(testbed: Testbed, node: Node, *words: str | int) -> None:
    try:
        connect(testbed, node, 1.0).ask(*words)
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't change its part: {problem}"
        ) from problem
