"""When the servers of a Redis testbed are healthy."""

from __future__ import annotations

from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed.console import connect
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

__all__ = ["SLOTS", "facts_in", "is_in_step", "leads", "wait_for_answer", "wait_for_node"]

SLOTS: Final = 16_384
"""Slots of a Redis Cluster."""


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
    pid = _facts(testbed, node, "INFO", "server").get("process_id")
    return node.process is not None and pid == str(node.process.pid)


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
        return facts_in(connect(testbed, node).ask(*words))
    except SystemUnderTestError:
        return {}


def facts_in(text: str) -> dict[str, str]:
    """The lines `name:value` of a reply, as those of INFO."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, colon, value in lines if colon}
