"""Reaching the servers of a Redis testbed, and when they are healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvmark.testbed.process import wait_until
from kvmark.testbed.redis.client import Client, ReplyError
from kvmark.testbed.state import Node, Testbed

__all__ = ["SLOTS", "connect", "is_in_step", "leads", "wait_for_answer", "wait_for_node"]

SLOTS: Final = 16_384
"""Slots of a Redis Cluster."""


def connect(testbed: Testbed, node: Node, timeout_s: float = 5.0) -> Client:
    """A connection to a server, with the testbed's password and authority.

    Raises:
        OSError: the server doesn't answer, or the password's file can't be read.
        ReplyError: it refused the password.
    """
    password, authority = testbed.facts.get("password_file"), testbed.facts.get("ca_file")
    return Client(
        node.host,
        node.port,
        password=Path(password).read_text(encoding="utf-8") if password else None,
        authority=Path(authority) if authority else None,
        timeout_s=timeout_s,
    )


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_until(lambda: _answers(testbed, node), "answer PING", testbed.watched(node), within_s)


def wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server does its work: it answers, sees its cluster, follows its primary.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_for_answer(testbed, node, within_s)
    watched = testbed.watched(node)
    if testbed.facts.get("cluster"):
        wait_until(lambda: _sees_cluster(testbed, node), "see its cluster", watched, within_s)
    wait_until(lambda: is_in_step(testbed, node), "follow its primary", watched, within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and is ours: another program may have taken the port."""
    try:
        with connect(testbed, node) as client:
            alive = client.ask("PING") == "PONG"
            pid = client.facts("INFO", "server").get("process_id")
            return alive and node.process is not None and pid == str(node.process.pid)
    except (OSError, ReplyError):
        return False


def is_in_step(testbed: Testbed, node: Node) -> bool:
    """Whether it has its primary's data, or is a primary: in a cluster roles may have changed."""
    known = _facts(testbed, node, "INFO", "replication")
    return known.get("role") == "master" or known.get("master_link_status") == "up"


def leads(testbed: Testbed, node: Node) -> bool:
    """Whether it is a primary."""
    return _facts(testbed, node, "INFO", "replication").get("role") == "master"


def _sees_cluster(testbed: Testbed, node: Node) -> bool:
    known = _facts(testbed, node, "CLUSTER", "INFO")
    return (
        known.get("cluster_state") == "ok"
        and known.get("cluster_slots_ok") == str(SLOTS)
        and known.get("cluster_known_nodes") == str(len(testbed.nodes))
    )


def _facts(testbed: Testbed, node: Node, *words: str) -> dict[str, str]:
    """The reply as lines of facts; none while the server isn't ready to give them."""
    try:
        with connect(testbed, node) as client:
            return client.facts(*words)
    except (OSError, ReplyError):
        return {}
