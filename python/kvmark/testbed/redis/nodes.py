"""Servers of a Redis testbed: when they are healthy, how they are set, and which of them leads.

A replica takes its primary's place, and gives it back, as a watchdog of Redis would do.

Clients know one address, which goes over to the new primary with its work, as with a virtual
address on a network. So their connections are reset and they connect again. What the old primary
had acknowledged and not passed on is lost, if it is gone for good or has to follow the new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.console import ANSWERS_WITHIN_S, Console, NetworkMeter, connect, fingerprint
from kvmark.testbed.network import Network, move_service
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

SLOTS: Final = 16_384
"""Slots of a Redis Cluster."""

_SECRET: Final = re.compile(r"pass$|^masterauth$|^masteruser$")
# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = re.compile(
    r"(tls-|cluster-announce-(tls-|bus-)?|replica-announce-|slave-announce-|cluster-)?port"
    r"|(cluster-announce|replica-announce|slave-announce)-(ip|hostname)"
    r"|dir|pidfile|logfile|unixsocket|replicaof|slaveof|aclfile|.*-file|proc-title-template"
)

_WITHIN_S = 60.0


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
    wait_until(lambda: _is_in_step(testbed, node), "follow its primary", watched, within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and is ours: another program may have taken the port."""
    pid = _facts(testbed, node, "INFO", "server").get("process_id")
    return node.process is not None and pid == str(node.process.pid)


def _is_in_step(testbed: Testbed, node: Node) -> bool:
    """Whether it has its primary's data, or is a primary: in a cluster roles may have changed."""
    known = _facts(testbed, node, "INFO", "replication")
    return known.get("role") == "master" or known.get("master_link_status") == "up"


def _leads(testbed: Testbed, node: Node) -> bool:
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


def version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    known = facts_in(connect(testbed, testbed.nodes[0]).ask("INFO", "server"))
    return known.get("valkey_version") or known.get("redis_version", "")


def settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server, without its secrets.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        told = connect(testbed, node).ask("CONFIG", "GET", "*")
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    found = dict(zip(told[::2], told[1::2], strict=True))
    return {name: found[name] for name in sorted(found) if not _SECRET.search(name)}


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, servers, the first one's settings and their fingerprint.

    Raises:
        SystemUnderTestError: the first server doesn't say its settings.
    """
    settings = settings_of(testbed, testbed.nodes[0])
    counted = {name: value for name, value in settings.items() if not _PLACES.fullmatch(name)}
    return {**testbed.described(), "fingerprint": fingerprint(counted), "settings": settings}


def meter(testbed: Testbed, node: Node) -> NetworkMeter:
    """Asks one server how many bytes its connections carried."""
    return NetworkMeter(connect(testbed, node, ANSWERS_WITHIN_S), _carried)


def _carried(console: Console) -> tuple[str, str]:
    known = facts_in(console.ask("INFO", "stats"))
    return known["total_net_output_bytes"], known["total_net_input_bytes"]


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
    wait_until(lambda: _is_in_step(testbed, primary), f"follow {name}", watched, _WITHIN_S)
    what = f"take its place back from {name}"
    wait_until(lambda: _hands_over(testbed, promoted, primary), what, watched, _WITHIN_S)
    wait_until(lambda: _leads(testbed, primary), what, watched, _WITHIN_S)
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
