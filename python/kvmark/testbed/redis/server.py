"""Servers of a Redis testbed: health, settings, counters, and promotion of replicas.

A replica takes its primary's place, and gives it back, as with a watchdog of Redis.

Clients know one address, which moves to the new primary, like a virtual address in a network. So
their connections are reset and they connect again. Writes that the old primary acknowledged and
didn't replicate are lost, if it is gone permanently or has to follow the new one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import console as consoles
from kvmark.testbed.console import Console, connect, settings_of
from kvmark.testbed.network import Network, move_service
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed

SLOTS: Final = 16_384
"""Slots of a Redis Cluster."""

_SECRET: Final = re.compile(r"pass$|^masterauth$|^masteruser$")
# These differ between testbeds and don't affect measurements.
_PLACES: Final = re.compile(
    r"(tls-|cluster-announce-(tls-|bus-)?|replica-announce-|slave-announce-|cluster-)?port"
    r"|(cluster-announce|replica-announce|slave-announce)-(ip|hostname)"
    r"|dir|pidfile|logfile|unixsocket|replicaof|slaveof|aclfile|.*-file|proc-title-template"
)

_HANDOVER_WITHIN_S: Final = 60.0


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_until(lambda: _answers(testbed, node), "answer PING", testbed.watched(node), within_s)


def wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers, sees its cluster and follows its primary.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_for_answer(testbed, node, within_s)
    watched = testbed.watched(node)
    if testbed.facts.get("cluster"):
        wait_until(lambda: _sees_cluster(testbed, node), "see its cluster", watched, within_s)
    wait_until(lambda: _is_in_step(testbed, node), "follow its primary", watched, within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and not another program that has taken the port."""
    pid = _fields(testbed, node, "INFO", "server").get("process_id")
    return node.process is not None and pid == str(node.process.pid)


def _is_in_step(testbed: Testbed, node: Node) -> bool:
    """Whether it has its primary's data, or is a primary: in a cluster, roles may have changed."""
    fields = _fields(testbed, node, "INFO", "replication")
    return fields.get("role") == "master" or fields.get("master_link_status") == "up"


def _is_primary(testbed: Testbed, node: Node) -> bool:
    return _fields(testbed, node, "INFO", "replication").get("role") == "master"


def _sees_cluster(testbed: Testbed, node: Node) -> bool:
    fields = _fields(testbed, node, "CLUSTER", "INFO")
    return (
        fields.get("cluster_state") == "ok"
        and fields.get("cluster_slots_ok") == str(SLOTS)
        and fields.get("cluster_known_nodes") == str(len(testbed.nodes))
    )


def _fields(testbed: Testbed, node: Node, *command: str) -> dict[str, str]:
    """The fields of a reply; none while the server isn't ready."""
    try:
        return info_fields(connect(testbed, node).ask(*command))
    except SystemUnderTestError:
        return {}


def info_fields(text: str) -> dict[str, str]:
    """The lines `name:value` of a reply such as that of INFO."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, colon, value in lines if colon}


def version_of(testbed: Testbed) -> str:
    """The version of its first server."""
    fields = info_fields(connect(testbed, testbed.nodes[0]).ask("INFO", "server"))
    return fields.get("valkey_version") or fields.get("redis_version", "")


def effective_settings(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server, without its secrets.

    Raises:
        SystemUnderTestError: the server doesn't return them.
    """
    return settings_of(testbed, node, _public_settings)


def _public_settings(console: Console) -> dict[str, str]:
    reply = console.ask("CONFIG", "GET", "*")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name: value for name, value in pairs if not _SECRET.search(name)}


def _carried(console: Console) -> tuple[str, str]:
    fields = info_fields(console.ask("INFO", "stats"))
    return fields["total_net_output_bytes"], fields["total_net_input_bytes"]


describe: Final = partial(consoles.describe, read=_public_settings, places=_PLACES)
meter: Final = partial(consoles.NetworkMeter, carried=_carried)


def check_promotion(testbed: Testbed, name: str) -> None:
    """Checks that a server of a testbed can be promoted.

    Raises:
        UsageError: it can't.
    """
    _service(testbed)
    if testbed.node(name).role != "replica":
        raise UsageError(f"{name} is no replica, and only those can be promoted")


def promote(testbed: Testbed, name: str) -> None:
    """Makes a replica the primary, gives it the service address, and lets the others follow it.

    Servers that can't be reached stay as they are.

    Raises:
        SystemUnderTestError: the replica refuses.
    """
    node = testbed.node(name)
    _ask(testbed, node, "REPLICAOF", "NO", "ONE")
    move_service(_service(testbed), name)
    for other in testbed.nodes:
        if other != node:
            with suppress(SystemUnderTestError):
                _follow(testbed, other, node)


def demote(testbed: Testbed, name: str) -> None:
    """Makes the first server the primary again, after it has received the replica's data.

    FAILOVER (since Redis 6.2) does it without loss.

    Raises:
        SystemUnderTestError: a server is gone, or the time is over.
    """
    primary, promoted = testbed.nodes[0], testbed.node(name)
    watched, back = testbed.watched(primary, promoted), f"take its place back from {name}"
    _follow(testbed, primary, promoted)
    for condition, purpose in (
        (lambda: _is_in_step(testbed, primary), f"follow {name}"),
        (lambda: _hands_over(testbed, promoted, primary), back),
        (lambda: _is_primary(testbed, primary), back),
    ):
        wait_until(condition, purpose, watched, _HANDOVER_WITHIN_S)
    move_service(_service(testbed), primary.name)
    for node in testbed.nodes:
        if node not in (primary, promoted):
            _follow(testbed, node, primary)


def _service(testbed: Testbed) -> Network:
    """The network whose service address can move to another server."""
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
    """Whether a primary starts the failover; it may not know yet that the other follows it."""
    try:
        _ask(testbed, node, "FAILOVER", "TO", to.host, to.port)
    except SystemUnderTestError:
        return False
    return True


def _ask(testbed: Testbed, node: Node, *command: str | int) -> None:
    try:
        connect(testbed, node, 1.0).ask(*command)
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't change its part: {problem}"
        ) from problem
