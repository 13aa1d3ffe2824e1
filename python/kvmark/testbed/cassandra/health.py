"""When the nodes of a Cassandra testbed are healthy, and why they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed import console
from kvmark.testbed.cassandra.log import reason_in
from kvmark.testbed.memory_group import ran_out
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

__all__ = ["DRIVER", "USER", "connect", "wait", "wait_for_answer", "wait_for_node"]

DRIVER: Final = "cql"
USER: Final = "cassandra"
"""The user that a cluster with passwords begins with."""


def connect(
    testbed: Testbed, node: Node, timeout_s: float = 5.0, consistency: str = "one"
) -> console.Console:
    """A node of a testbed; what each has to itself is read at ONE."""
    return console.connect(testbed, node, timeout_s, consistency=consistency)


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node answers CQL.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait(testbed, node, lambda: _answers(testbed, node), "answer CQL", within_s)


def wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node knows all others, agrees with them on tables, and reads from all of them.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait_for_answer(testbed, node, within_s)
    wait(testbed, node, lambda: _knows_all(testbed, node), "know all nodes", within_s)
    wait(testbed, node, lambda: _reads_from_all(testbed, node), "read from all nodes", within_s)


def wait(
    testbed: Testbed, node: Node, condition: Callable[[], bool], what: str, within_s: float
) -> None:
    """Waits for a condition of a node.

    Raises:
        SystemUnderTestError: the node ends, or the time is over; quotes its log.
    """
    try:
        wait_until(condition, what, testbed.watched(node), within_s)
    except SystemUnderTestError as problem:
        name = f"{testbed.name}/{node.name}"
        if node.group is not None and not node.lives and ran_out(node.group):
            raise SystemUnderTestError(
                f"{name} was killed by the kernel, because it needs more memory than it may take:"
                " give more --memory, or lower --heap"
            ) from problem
        log = testbed.log_of(node)
        found = reason_in(log)
        if found is None:
            raise
        happened = f"did not {what} within {within_s:g} s" if node.lives else "ended by itself"
        raise SystemUnderTestError(
            f"{name} {happened}; line {found.number} of {log} says: {found.text}"
        ) from problem


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the node answers, and is ours: another program may have taken the port."""
    try:
        (local,) = connect(testbed, node).ask("SELECT cluster_name FROM system.local")
    except (SystemUnderTestError, ValueError):
        return False
    return bool(local["cluster_name"] == testbed.facts["cluster_name"])


def _knows_all(testbed: Testbed, node: Node) -> bool:
    """Whether the node knows the address of every node, and all have the same tables."""
    try:
        client = connect(testbed, node)
        known = client.ask("SELECT rpc_address, schema_version FROM system.local")
        known += client.ask("SELECT rpc_address, schema_version FROM system.peers")
    except SystemUnderTestError:
        return False
    addresses = {row["rpc_address"] for row in known}
    schemas = {row["schema_version"] for row in known}
    return addresses == {each.host for each in testbed.nodes} and len(schemas) == 1


def _reads_from_all(testbed: Testbed, node: Node) -> bool:
    """Whether a read through this node that needs all nodes succeeds: it sees all of them there."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    try:
        connect(testbed, node, consistency="all").ask(statement)
    except SystemUnderTestError:
        return False
    return True
