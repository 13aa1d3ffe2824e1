"""Redis, and servers that are started like it: one server, a replicated pair, or a cluster.

A replica takes its primary's place, and gives it back, as with a watchdog of Redis.

Clients know one address, which moves to the new primary, like a virtual address in a network. So
their connections are reset and they connect again. Writes that the old primary acknowledged and
didn't replicate are lost, if it is gone permanently or has to follow the new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from kvmark.errors import SpecError, SystemUnderTestError, UsageError
from kvmark.removal import remove_file
from kvmark.secret import Secret
from kvmark.spec.quantity import size_bytes
from kvmark.testbed import console as consoles
from kvmark.testbed import launch as launching
from kvmark.testbed import network as networks
from kvmark.testbed import process, state, system
from kvmark.testbed.console import Console, connect, settings_of
from kvmark.testbed.launch import Certificates, find_server, launch, planned
from kvmark.testbed.network import HOST, Network, move_service
from kvmark.testbed.redis.data import contents
from kvmark.testbed.state import Node, Role, Testbed, make_folder, template, write_private
from kvmark.testbed.system import Promotion, Saving, Settings, System, Tell, TestbedOptions

_OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{launching.CERTIFICATE_FILES}"
    r"|[a-z]+-\d+/(redis\.conf|server\.log|nodes\.conf(\.tmp.*)?|dump\.rdb|temp-[\w.-]+"
    r"|appendonlydir/[\w.-]+|appendonly\.aof))"
)
_HEALTHY_WITHIN_S: Final = 60.0

_BUS_DISTANCE: Final = 10_000
"""Distance of the port for a cluster's internal traffic from the port for clients."""
_RESERVED_CLIENTS: Final = 32
"""Connections beyond the option: the observer, replicas, and manual inspection."""
_USUAL_PORT: Final = 6379
_LEAST_BYTES: Final = 64 * 2**20
_LONGEST_PASSWORD: Final = 512
_SIZES: Final = {"": 1, "b": 1} | {
    unit + end: base**n
    for n, unit in enumerate("kmg", 1)
    for end, base in (("", 1000), ("b", 1024))
}
"""As redis.conf writes them: k is 1000 and kb is 1024."""
_FATAL: Final = re.compile(r">>> '(.*)'\n(.*)")
_FSYNC: Final = ("always", "everysec", "no")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*", re.IGNORECASE)
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - in a network of this machine only
_SAVE: Final = re.compile(r"\d+ \d+(?: \d+ \d+)*")

_SLOTS: Final = 16_384
"""Slots of a Redis Cluster."""

_SECRET: Final = re.compile(r"pass$|^masterauth$|^masteruser$")
# These differ between testbeds and don't affect measurements.
_PLACES: Final = re.compile(
    r"(tls-|cluster-announce-(tls-|bus-)?|replica-announce-|slave-announce-|cluster-)?port"
    r"|(cluster-announce|replica-announce|slave-announce)-(ip|hostname)"
    r"|dir|pidfile|logfile|unixsocket|replicaof|slaveof|aclfile|.*-file|proc-title-template"
)

_HANDOVER_WITHIN_S: Final = 60.0

# Settings that a testbed decides itself, by the advice.
_DECIDED: Final = {
    "give --port": "tls-port",
    "give --password-file": "requirepass masterauth masteruser user",
    "give --replicas": "replicaof slaveof",
    "give --cluster": "cluster-enabled cluster-port",
    "give --tls": "tls-cert-file tls-key-file tls-ca-cert-file tls-replication tls-cluster"
    " tls-auth-clients",
    "a testbed listens on this machine only": "bind protected-mode",
    "kvmark keeps the process itself": "daemonize supervised",
    "the testbed has its own folder": "dir logfile pidfile include cluster-config-file aclfile",
    "files keep their names": "dbfilename appendfilename appenddirname",
    "kvmark chooses it": "cluster-announce-ip cluster-announce-port",
    "kvmark needs what it changes": "rename-command proc-title-template",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions(TestbedOptions):
    """The options of a Redis testbed."""

    port: int | None = system.port_option("of the first server; else free ones.")
    """The first server's port, the others' above it; None for free ones."""
    appendonly: bool = system.option(
        False, "whether writes go to a log.", type=system.YES_OR_NO, read=lambda text: text == "yes"
    )
    appendfsync: str = system.option(
        "everysec", "when that log goes to the disk.", type=Literal["always", "everysec", "no"]
    )
    save: str = system.option("", "snapshots, such as '3600 1'; else none.", "TEXT")
    """Snapshots, as `seconds changes` once or several times; empty for none."""
    password: Secret | None = None
    tls: bool = False
    replicas: int = system.option(0, "replicas of each primary.", "N", least=0)
    cluster: int | None = system.option(None, "a cluster's number of primaries.", "N", least=1)
    """Primaries of a Redis Cluster; None for a server without cluster mode."""
    io_threads: int | None = system.option(None, "the setting io-threads.", "N", least=1)
    maxclients: int = system.option(10_000, "connections for clients.", "N", least=1)
    settings: Settings = system.settings_option("any setting of redis.conf.")
    """Further settings of redis.conf; they come last."""
    server: str = system.option(
        "redis-server", "the server's program.", "PROGRAM", in_studies=False
    )
    network: bool = False
    """Whether each server has its own address and link, which faults can disturb."""


def check(options: RedisOptions) -> None:
    """Refuses options that can't be used.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    if options.appendfsync not in _FSYNC:
        raise UsageError(
            f"appendfsync: '{options.appendfsync}' is not known; give {', '.join(_FSYNC)}"
        )
    if options.save and not _SAVE.fullmatch(options.save):
        raise UsageError(
            f"save: '{options.save}' is not a list of seconds and changes; write it like '3600 1'"
        )
    system.check_options(options, _NAME, _DECIDED, _LONGEST_PASSWORD)


def _forgets(made_with: Mapping[str, Any]) -> str | None:
    if made_with.get("appendonly") is not False or made_with.get("save"):
        return None
    if made_with.get("dataset"):
        return f"Without --appendonly yes or --save it has dataset '{made_with['dataset']}' again"
    return "Without --appendonly yes or --save Redis keeps its data in memory only"


def up(
    options: RedisOptions,
    root: Path,
    _tell: Tell = lambda _: None,
    kind: System | None = None,
) -> Testbed:
    """Starts a testbed in a new folder below `root`, and waits until it is healthy.

    `kind` is a system that is started like Redis. If starting fails, neither a process nor the
    folder is left.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    check(options)
    kind = kind or SYSTEM
    program = find_server(options.server, f"{kind.name}-server")
    roles = _roles(options)
    each_bytes = _LEAST_BYTES
    with suppress(SpecError):  # The server rejects an invalid value itself.
        most_bytes = size_bytes(dict(options.settings).get("maxmemory", "0"), _SIZES)
        each_bytes = max(each_bytes, most_bytes)
    launching.check_memory(len(roles), each_bytes, "start fewer, or lower maxmemory")
    bus = 0 if options.cluster is None else _BUS_DISTANCE
    network = None
    if options.network:
        network = networks.choose_network(list(roles))
        ports = networks.consecutive_ports(options.port or _USUAL_PORT, len(roles), bus)
        if options.cluster is None:
            # The service address moves to a replica with its port.
            ports = [ports[0]] * len(roles)
    else:
        ports = networks.choose_ports(options.port, len(roles), bus)
    folder = make_folder(root, kind.name, options.name)
    nodes = [
        Node(
            name=name,
            role=role,
            host=HOST if network is None else network.host(name),
            port=port,
            command=networks.inside(network, name, [program, str(folder / name / "redis.conf")]),
            cores=options.cores,
            more_ports=() if options.cluster is None else (port + _BUS_DISTANCE,),
        )
        for (name, role), port in zip(roles.items(), ports, strict=True)
    ]
    facts: dict[str, Any] = {"cluster": options.cluster is not None}
    if network is not None and options.cluster is None:
        facts["service"] = f"{network.service}:{nodes[0].port}"
    primaries = ",".join(node.address for node in nodes if node.role == "primary")
    url = f"{'rediss' if options.tls else 'redis'}://{facts.get('service', primaries)}"
    if options.cluster is not None:
        url += "?cluster=true"
    testbed = planned(kind.name, folder, options, nodes, url, facts=facts, network=network)
    return launch(testbed, options, kind, _prepare, _complete)


def _roles(options: RedisOptions) -> dict[str, Role]:
    """The servers by name: primaries first, then the replicas of each in turn."""
    primaries = options.cluster or 1
    counts: dict[Role, int] = {"primary": primaries, "replica": primaries * options.replicas}
    return {f"{role}-{i + 1}": role for role, count in counts.items() for i in range(count)}


def _prepare(testbed: Testbed, options: RedisOptions, certificates: Certificates | None) -> None:
    """Writes the files that the servers read."""
    for node in testbed.nodes:
        text = settings_text(options, testbed, node, certificates)
        write_private(testbed.folder_of(node) / "redis.conf", text)


def settings_text(
    options: RedisOptions, testbed: Testbed, node: Node, certificates: Certificates | None
) -> str:
    """The text of redis.conf for one server. It has the password: keep it private."""
    lines = [
        template("redis/redis.conf").format(
            # The service address comes to a server when it is promoted.
            bind=_EVERY_ADDRESS if options.network else node.host,
            folder=_quoted(testbed.folder_of(node)),
            appendonly="yes" if options.appendonly else "no",
            appendfsync=options.appendfsync,
            maxclients=options.maxclients + _RESERVED_CLIENTS,
        ),
    ]
    numbers = options.save.split()
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    lines += [f"save {seconds} {changes}" for seconds, changes in pairs] or ['save ""']
    if certificates is None:
        lines.append(f"port {node.port}")
    else:
        lines.append(
            template("redis/tls.conf").format(
                port=node.port,
                certificate=_quoted(certificates.server),
                key=_quoted(certificates.key),
                authority=_quoted(certificates.authority),
            )
        )
    if options.io_threads is not None:
        lines.append(f"io-threads {options.io_threads}")
    if options.password is not None:
        quoted = _quoted(options.password.reveal())
        lines += [f"requirepass {quoted}", f"masterauth {quoted}"]
    if node.role == "replica" and options.cluster is None:
        lines.append(f"replicaof {testbed.nodes[0].host} {testbed.nodes[0].port}")
    if options.network:
        # Without a password, a server would answer on the loopback address only. Only this machine
        # can reach the network.
        lines.append("protected-mode no")
    if options.cluster is not None:
        lines += ["cluster-enabled yes", "cluster-config-file nodes.conf"]
        lines.append(f"cluster-announce-ip {node.host}")
    lines += (f"{name} {value or _quoted('')}" for name, value in options.settings)
    return "\n".join(lines) + "\n"


def _quoted(text: str | Path) -> str:
    """A text of redis.conf in quotation marks."""
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _complete(testbed: Testbed, options: RedisOptions) -> None:
    """Forms the cluster, and checks the number of clients."""
    for node in testbed.nodes:
        _wait_for_answer(testbed, node, _HEALTHY_WITHIN_S)
    if options.cluster is not None and options.dataset is None:
        _form_cluster(testbed, options.replicas)
    # A server that may not open enough files lowers maxclients and only logs it.
    settings = settings_of(testbed, testbed.nodes[0], _public_settings)
    effective = int(settings["maxclients"])
    if effective < options.maxclients + _RESERVED_CLIENTS:
        raise UsageError(
            f"the server takes {effective - _RESERVED_CLIENTS} clients and not"
            f" {options.maxclients}, because it may not open more files: raise `ulimit -n`, or"
            " lower --maxclients"
        )


def _refusal(log: Path) -> str | None:
    """The setting that a server refused, if that is why it ended."""
    fatal = _FATAL.search(process.tail(log))
    return fatal and f"the server refused the setting `{fatal[1]}`: {fatal[2].strip()}"


def _form_cluster(testbed: Testbed, replicas: int) -> None:
    """Assigns slots to the primaries, introduces all servers, and assigns replicas in order.

    Raises:
        SystemUnderTestError: a server ends, or the time is over.
    """
    primaries = [node for node in testbed.nodes if node.role == "primary"]
    followers = [node for node in testbed.nodes if node.role == "replica"]
    for index, node in enumerate(primaries):
        console = connect(testbed, node)
        # Equal shares, in order.
        first, end = (number * _SLOTS // len(primaries) for number in (index, index + 1))
        console.ask("CLUSTER", "ADDSLOTS", *range(first, end))
        console.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
    _introduce(testbed, testbed.nodes)
    for index, node in enumerate(followers):
        _join(testbed, node, primaries[index // replicas])
    # A server announces its primary and its progress when it meets others: gossip takes long.
    _introduce(testbed, followers)
    _wait_for_all(testbed, _announces_all, "tell clients of all servers")


def _introduce(testbed: Testbed, nodes: Sequence[Node]) -> None:
    """Lets some servers meet all others, and waits until all know each other."""
    for node in nodes:
        console = connect(testbed, node)
        for other in testbed.nodes:
            if other != node:
                console.ask("CLUSTER", "MEET", other.host, other.port)
    _wait_for_all(testbed, _knows_all, "know all servers")


def _join(testbed: Testbed, node: Node, primary: Node) -> None:
    """Assigns a replica to its primary, and waits until it has received data.

    Servers don't announce a replica without data to clients.
    """
    source, follower = connect(testbed, primary), connect(testbed, node)
    follower.ask("CLUSTER", "REPLICATE", source.ask("CLUSTER", "MYID"))

    def has_data() -> bool:
        # Waiting for more replicas than exist sends a request to each.
        source.ask("WAIT", len(testbed.nodes), 10)
        fields = info_fields(follower.ask("INFO", "replication"))
        return int(fields.get("slave_repl_offset", 0)) > 0

    testbed.wait_until(has_data, "follow its primary", _HEALTHY_WITHIN_S, node, primary)


def _wait_for_all(
    testbed: Testbed, condition: Callable[[Console, Testbed], bool], purpose: str
) -> None:
    for node in testbed.nodes:
        ready = partial(condition, connect(testbed, node), testbed)
        testbed.wait_until(ready, purpose, _HEALTHY_WITHIN_S, node)


def _knows_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server knows all servers, and all handshakes are complete."""
    reply = console.ask("CLUSTER", "NODES")
    return len(reply.splitlines()) == len(testbed.nodes) and "handshake" not in reply


def _announces_all(console: Console, testbed: Testbed) -> bool:
    """Whether a server's map of the slots has all servers, replicas included."""
    shares = console.ask("CLUSTER", "SLOTS")
    ports = {port for _, _, *servers in shares for _, port, *_ in servers}
    return ports == {node.port for node in testbed.nodes}


def _wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    testbed.wait_until(lambda: _answers(testbed, node), "answer PING", within_s, node)


def _wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers, sees its cluster and follows its primary.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    _wait_for_answer(testbed, node, within_s)
    wait_until = testbed.wait_until
    if testbed.facts.get("cluster"):
        wait_until(lambda: _sees_cluster(testbed, node), "see its cluster", within_s, node)
    wait_until(lambda: _is_in_step(testbed, node), "follow its primary", within_s, node)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and not another program that has taken the port."""
    pid = _fields(testbed, node, "INFO", "server").get("process_id")
    return node.process is not None and pid == str(node.process.pid)


def _is_in_step(testbed: Testbed, node: Node) -> bool:
    """Whether it has its primary's data, or is a primary: in a cluster, roles may have changed."""
    fields = _fields(testbed, node, "INFO", "replication")
    return fields.get("role") == "master" or fields.get("master_link_status") == "up"


def _sees_cluster(testbed: Testbed, node: Node) -> bool:
    fields = _fields(testbed, node, "CLUSTER", "INFO")
    return (
        fields.get("cluster_state") == "ok"
        and fields.get("cluster_slots_ok") == str(_SLOTS)
        and fields.get("cluster_known_nodes") == str(len(testbed.nodes))
    )


def _fields(testbed: Testbed, node: Node, *command: str) -> dict[str, str]:
    """The fields of a reply."""
    return info_fields(connect(testbed, node).ask(*command))


def info_fields(text: str) -> dict[str, str]:
    """The lines `name:value` of a reply such as that of INFO."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, colon, value in lines if colon}


def _flush(testbed: Testbed) -> None:
    """Writes snapshots: without a log, servers forget their data when they stop.

    Raises:
        SystemUnderTestError: a server can't.
    """
    for node in testbed.nodes if not testbed.made_with["appendonly"] else ():
        connect(testbed, node, launching.RETURNS_WITHIN_S).ask("SAVE")


def _remove_flushed(testbed: Testbed) -> None:
    """Removes the snapshots: servers that keep their data in memory only start empty again."""
    if _forgets(testbed.made_with) and not testbed.made_with.get("dataset"):
        for node in testbed.nodes:
            remove_file(testbed.folder_of(node) / "dump.rdb")


def _adapt(testbed: Testbed, saved: Testbed) -> None:
    """Replaces all addresses in the servers' descriptions of their cluster."""

    def places(nodes: Sequence[Node]) -> list[str]:
        return [f" {node.address}@{port}" for node in nodes for port in node.more_ports]

    new = dict(zip(places(saved.nodes), places(testbed.nodes), strict=True))
    for node in testbed.nodes if new else ():
        path = testbed.folder_of(node) / "nodes.conf"
        old = re.compile("|".join(rf"{re.escape(place)}\b" for place in new))
        path.write_text(old.sub(lambda place: new[place[0]], path.read_text()))


def _version_of(testbed: Testbed) -> str:
    """The version of its first server."""
    fields = _fields(testbed, testbed.nodes[0], "INFO", "server")
    return fields.get("valkey_version") or fields.get("redis_version", "")


def _public_settings(console: Console) -> dict[str, str]:
    """The effective settings of a server, without its secrets."""
    reply = console.ask("CONFIG", "GET", "*")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name: value for name, value in pairs if not _SECRET.search(name)}


def _carried(console: Console) -> tuple[str, str]:
    fields = info_fields(console.ask("INFO", "stats"))
    return fields["total_net_output_bytes"], fields["total_net_input_bytes"]


def _check_promotion(testbed: Testbed, name: str) -> None:
    """Checks that a server of a testbed can be promoted.

    Raises:
        UsageError: it can't.
    """
    _service(testbed)
    if testbed.node(name).role != "replica":
        raise UsageError(f"{name} is no replica, and only those can be promoted")


def _promote(testbed: Testbed, name: str) -> None:
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
                _replicate(testbed, other, node)


def _demote(testbed: Testbed, name: str) -> None:
    """Makes the first server the primary again, after it has received the replica's data.

    FAILOVER (since Redis 6.2) does it without loss.

    Raises:
        SystemUnderTestError: a server is gone, or the time is over.
    """
    primary, promoted = testbed.nodes[0], testbed.node(name)
    back = f"take its place back from {name}"
    _replicate(testbed, primary, promoted)
    for condition, purpose in (
        (lambda: _is_in_step(testbed, primary), f"follow {name}"),
        (lambda: _hands_over(testbed, promoted, primary), back),
        (lambda: _fields(testbed, primary, "INFO", "replication").get("role") == "master", back),
    ):
        testbed.wait_until(condition, purpose, _HANDOVER_WITHIN_S, primary, promoted)
    move_service(_service(testbed), primary.name)
    for node in testbed.nodes:
        if node not in (primary, promoted):
            _replicate(testbed, node, primary)


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


def _replicate(testbed: Testbed, node: Node, primary: Node) -> None:
    _ask(testbed, node, "REPLICAOF", primary.host, primary.port)


def _hands_over(testbed: Testbed, node: Node, to: Node) -> bool:
    """Whether a primary starts the failover; it may not know yet that the other follows it."""
    _ask(testbed, node, "FAILOVER", "TO", to.host, to.port)
    return True


def _ask(testbed: Testbed, node: Node, *command: str | int) -> None:
    try:
        connect(testbed, node, 1.0).ask(*command)
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't change its part: {problem}"
        ) from problem


SYSTEM: Final = System(
    "redis",
    RedisOptions,
    up,
    _wait_for_answer,
    _wait_for_node,
    partial(consoles.describe, read=_public_settings, places=_PLACES),
    partial(consoles.NetworkMeter, carried=_carried),
    _OWN_FILES,
    _HEALTHY_WITHIN_S,
    refusal=_refusal,
    version_of=_version_of,
    driver="redis",
    contents=contents,
    forgets=_forgets,
    saving=Saving(
        ("dump.rdb", "appendonlydir", "appendonly.aof", "nodes.conf"),
        ("appendonly", "cluster", "replicas"),
        flush=_flush,
        remove_flushed=_remove_flushed,
        adapt=_adapt,
    ),
    promotion=Promotion(_check_promotion, _promote, _demote),
)
