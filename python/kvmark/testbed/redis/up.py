"""Starts a Redis testbed: one server, a replicated pair, or a cluster, which is formed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kvmark.errors import SpecError, UsageError
from kvmark.spec.quantity import size_bytes
from kvmark.testbed import certificates as tls
from kvmark.testbed import network as networks
from kvmark.testbed import process, state
from kvmark.testbed.console import Console, check_memory, connect, find_server
from kvmark.testbed.launch import Launch, launch, planned
from kvmark.testbed.network import Network
from kvmark.testbed.ports import HOST, choose_ports, ports_elsewhere
from kvmark.testbed.process import wait_until
from kvmark.testbed.redis.config import (
    BUS_DISTANCE,
    RESERVED_CLIENTS,
    Place,
    Wanted,
    check,
    settings_text,
)
from kvmark.testbed.redis.nodes import (
    SLOTS,
    facts_in,
    settings_of,
    version_of,
    wait_for_answer,
    wait_for_node,
)
from kvmark.testbed.state import (
    Node,
    Role,
    Testbed,
    make_folder,
    write_private,
)

OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{tls.OWN_FILES}"
    r"|[a-z]+-\d+/(redis\.conf|server\.log|nodes\.conf(\.tmp.*)?|dump\.rdb|temp-[\w.-]+"
    r"|appendonlydir/[\w.-]+|appendonly\.aof))"
)
"""What a Redis testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 60.0
"""How long servers may take to start."""

_USUAL_PORT: Final = 6379
_LEAST_BYTES: Final = 64 * 2**20
_SIZES: Final = {"": 1, "b": 1} | {
    unit + end: base**n
    for n, unit in enumerate("kmg", 1)
    for end, base in (("", 1000), ("b", 1024))
}
"""As redis.conf writes them: k is 1000 and kb is 1024."""
_FATAL: Final = re.compile(r">>> '(.*)'\n(.*)")


def up(wanted: Wanted, root: Path, _tell: Callable[[str], None] = lambda _: None) -> Testbed:
    """Starts what is wanted, in a folder of its own below `root`, and waits until it is healthy.

    If that fails nothing is left, neither a process nor the folder.

    Raises:
        UsageError: what is wanted can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    check(wanted)
    program = find_server(wanted.server, "redis-server")
    _check_memory(wanted)
    bus = 0 if wanted.cluster is None else BUS_DISTANCE
    network = None
    if wanted.network:
        network = networks.choose_network([name for name, _ in _names(wanted)])
        ports = ports_elsewhere(wanted.port or _USUAL_PORT, wanted.servers, bus)
        if wanted.cluster is None:
            # The address that clients know goes over to a replica with its port.
            ports = [ports[0]] * wanted.servers
    else:
        ports = choose_ports(wanted.port, wanted.servers, bus)
    folder = make_folder(root, "redis", wanted.name)
    steps = Launch(
        prepare=lambda testbed: _prepare(wanted, testbed),
        complete=lambda testbed: _healthy(wanted, testbed),
        refusal=_refusal,
        own_files=OWN_FILES,
    )
    return launch(_planned(wanted, folder, program, ports, network), wanted, steps)


def _planned(
    wanted: Wanted, folder: Path, program: str, ports: list[int], network: Network | None
) -> Testbed:
    """The testbed before its first process."""

    def node(name: str, role: Role, port: int) -> Node:
        command: tuple[str, ...] = (program, str(folder / name / "redis.conf"))
        if network is not None:
            command = networks.inside(network, name, command)
        return Node(
            name=name,
            role=role,
            host=HOST if network is None else network.host(name),
            port=port,
            command=command,
            cores=wanted.cores,
            more_ports=() if wanted.cluster is None else (port + BUS_DISTANCE,),
        )

    nodes = tuple(
        node(name, role, port) for (name, role), port in zip(_names(wanted), ports, strict=True)
    )
    facts: dict[str, Any] = {"cluster": wanted.cluster is not None}
    if network is not None and wanted.cluster is None:
        facts["service"] = f"{network.service}:{nodes[0].port}"
    primaries = ",".join(node.address for node in nodes if node.role == "primary")
    url = f"{'rediss' if wanted.tls else 'redis'}://{facts.get('service', primaries)}"
    if wanted.cluster is not None:
        url += "?cluster=true"
    return planned("redis", folder, wanted, nodes, url, facts=facts, network=network)


def _names(wanted: Wanted) -> Iterator[tuple[str, Role]]:
    """Primaries first, then the replicas of each in turn."""
    for index in range(wanted.primaries):
        yield f"primary-{index + 1}", "primary"
    for index in range(wanted.primaries * wanted.replicas):
        yield f"replica-{index + 1}", "replica"


def _prepare(wanted: Wanted, testbed: Testbed) -> Testbed:
    """Writes everything the servers read."""
    hosts = list(dict.fromkeys(node.host for node in testbed.nodes))
    hosts += [testbed.network.service] if testbed.network else []
    made = tls.make_certificates(testbed.folder, hosts) if wanted.tls else None
    first = testbed.nodes[0]
    for node in testbed.nodes:
        folder = testbed.folder_of(node)
        folder.mkdir()
        follows = node.role == "replica" and wanted.cluster is None
        primary = (first.host, first.port) if follows else None
        place = Place(folder, node.host, node.port, primary)
        write_private(folder / "redis.conf", settings_text(wanted, place, made))
    return testbed


def _healthy(wanted: Wanted, testbed: Testbed) -> Testbed:
    """Waits until all is as it is wanted; the testbed with its version."""
    for node in testbed.nodes:
        wait_for_answer(testbed, node, HEALTHY_WITHIN_S)
    if wanted.cluster is not None:
        _form_cluster(testbed, wanted.replicas, HEALTHY_WITHIN_S)
    for node in testbed.nodes:
        wait_for_node(testbed, node, HEALTHY_WITHIN_S)
    _check_clients(wanted, testbed)
    return testbed.model_copy(update={"version": version_of(testbed)})


def _check_memory(wanted: Wanted) -> None:
    """Each server needs some memory, or what `maxmemory` lets it use."""
    each = _LEAST_BYTES
    with suppress(SpecError):  # The server says itself what it can't read.
        each = max(each, size_bytes(dict(wanted.settings).get("maxmemory", "0"), _SIZES))
    check_memory(wanted.servers, each, "start fewer, or lower maxmemory")


def _check_clients(wanted: Wanted, testbed: Testbed) -> None:
    """A server that may not open enough files lowers maxclients and only says so in its log."""
    effective = int(settings_of(testbed, testbed.nodes[0])["maxclients"])
    if effective < wanted.maxclients + RESERVED_CLIENTS:
        raise UsageError(
            f"the server takes {effective - RESERVED_CLIENTS} clients and not {wanted.maxclients},"
            f" because it may not open more files: raise `ulimit -n`, or lower --maxclients"
        )


def _refusal(log: Path) -> str | None:
    """The setting that a server refused, if that is why it ended."""
    fatal = _FATAL.search(process.tail(log))
    return fatal and f"the server refused the setting `{fatal[1]}`: {fatal[2].strip()}"


def slots_of(index: int, primaries: int) -> range:
    """The slots of one of so many primaries: equal shares, in order."""
    return range(index * SLOTS // primaries, (index + 1) * SLOTS // primaries)


def _form_cluster(testbed: Testbed, replicas: int, within_s: float) -> None:
    """Gives the slots to the primaries, lets all servers meet, and each replica follow its primary.

    The primaries come first among the nodes; then the replicas, `replicas` for each primary in
    turn.

    Raises:
        SystemUnderTestError: a server ends, or the time is over.
    """
    primaries = [node for node in testbed.nodes if node.role == "primary"]
    followers = [node for node in testbed.nodes if node.role == "replica"]
    for index, node in enumerate(primaries):
        console = connect(testbed, node)
        console.ask("CLUSTER", "ADDSLOTS", *slots_of(index, len(primaries)))
        console.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
    _introduce(testbed, testbed.nodes, within_s)
    for index, node in enumerate(followers):
        _follow(testbed, node, primaries[index // replicas], within_s)
    # Whom it follows, and how far, a server tells when it greets: else the news takes long.
    _introduce(testbed, followers, within_s)
    for node in testbed.nodes:
        _wait(testbed, node, _tells_of_all, "tell clients of all servers", within_s)


def _introduce(testbed: Testbed, nodes: Sequence[Node], within_s: float) -> None:
    """Lets each of some servers greet all others, and waits until all know each other."""
    for node in nodes:
        console = connect(testbed, node)
        for other in testbed.nodes:
            if other != node:
                console.ask("CLUSTER", "MEET", other.host, other.port)
    for node in testbed.nodes:
        _wait(testbed, node, _knows_all, "know all servers", within_s)


def _follow(testbed: Testbed, node: Node, primary: Node, within_s: float) -> None:
    """Lets a replica follow its primary, and waits until something has come down the stream.

    A replica to which nothing has come yet isn't told of to clients.
    """
    source, follower = connect(testbed, primary), connect(testbed, node)
    follower.ask("CLUSTER", "REPLICATE", source.ask("CLUSTER", "MYID"))

    def something_came() -> bool:
        # Waiting in vain for more replicas than there are sends each a question.
        source.ask("WAIT", len(testbed.nodes), 10)
        known = facts_in(follower.ask("INFO", "replication"))
        return int(known.get("slave_repl_offset", 0)) > 0

    wait_until(something_came, "follow its primary", testbed.watched(node, primary), within_s)


def _wait(
    testbed: Testbed,
    node: Node,
    condition: Callable[[Console, Testbed], bool],
    what: str,
    within_s: float,
) -> None:
    console = connect(testbed, node)
    wait_until(lambda: condition(console, testbed), what, testbed.watched(node), within_s)


def _knows_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server knows all servers, and is greeting none any more."""
    known = console.ask("CLUSTER", "NODES")
    return len(known.splitlines()) == len(testbed.nodes) and "handshake" not in known


def _tells_of_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server's map of the slots has all servers, replicas included."""
    shares = console.ask("CLUSTER", "SLOTS")
    told = {port for _, _, *servers in shares for _, port, *_ in servers}
    return told == {node.port for node in testbed.nodes}
