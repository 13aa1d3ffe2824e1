"""Cassandra: one node, or several on this machine, each with an equal part of the ring."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed import launch as launching
from kvmark.testbed import network as networks
from kvmark.testbed import state, system
from kvmark.testbed.cassandra import server
from kvmark.testbed.cassandra.artifacts import Artifacts, exact_version, fetch, find_java
from kvmark.testbed.cassandra.server import DRIVER, USER
from kvmark.testbed.console import Console
from kvmark.testbed.launch import Certificates, PortTakenError, launch, planned
from kvmark.testbed.network import Network
from kvmark.testbed.saved import find_saved
from kvmark.testbed.state import Node, Testbed, make_folder, template, write_private
from kvmark.testbed.system import Saving, Settings, System, Tell, TestbedOptions, check_options

_OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{launching.CERTIFICATE_FILES}"
    r"|node-\d+/(cassandra\.yaml|jvm\.args|logback\.xml|jmx-exporter\.yaml|server\.log"
    r"|hs_err\.log|(data|tmp)/.+))"
)

_HEALTHY_WITHIN_S: Final = 900.0
"""Nodes start in some ten seconds each, and twenty times later on a busy machine.

One that fails ends, so that the limit is only for one that hangs.
"""

_USUAL_PORT: Final = 9042
_USUAL_STORAGE_PORT: Final = 7000
_USUAL_EXPORTER_PORT: Final = 9501
_FIRST_PASSWORD: Final = Secret("cassandra")
_MOST_STARTS: Final = 3
"""Attempts with other ports: another program may take one before a node listens there."""

_MOST_NODES: Final = 64
_LONGEST_PASSWORD: Final = 72
"""The limit of bcrypt, with which the server stores passwords; in bytes."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*(\.[\w-]+)*", re.IGNORECASE)
_RING: Final = 2**64

# Settings that a testbed decides itself, by the advice.
_DECIDED: Final = {
    "give --port": "native_transport_port",
    "give --password": "authenticator authorizer role_manager",
    "a testbed listens on this machine only": "listen_address rpc_address listen_interface"
    " rpc_interface",
    "kvmark chooses it": "broadcast_address broadcast_rpc_address cluster_name seed_provider",
    "kvmark chooses a free one": "storage_port ssl_storage_port",
    "each node has an equal part of the ring": "num_tokens initial_token auto_bootstrap"
    " partitioner",
    "nodes have own folders": "data_file_directories commitlog_directory hints_directory"
    " saved_caches_directory cdc_raw_directory local_system_data_file_directory",
}
_TLS: Final = "client_encryption_options"
_TLS_DECIDED: Final = ("enabled", "keystore", "keystore_password", "store_type", "optional")
_LOGIN: Final = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "role_manager": "CassandraRoleManager",
}

_MIB: Final = 2**20
_GIB: Final = 2**30
_LEAST_HEAP_BYTES: Final = 256 * _MIB
"""With less, a node starts but only collects garbage."""
_OVERHEAD_BYTES: Final = 420 * _MIB
"""Resident memory of a node without its heap, measured under load."""
_LEAST_DEFAULT_BYTES: Final = 512 * _MIB
_STEP_BYTES: Final = 64 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraOptions(TestbedOptions):
    """The options of a Cassandra testbed."""

    nodes: int = system.option(
        1, "nodes, at 127.0.0.1, 127.0.0.2 and so on.", "N", least=1, most=_MOST_NODES
    )
    version: str = system.option("5.0", "5.0, 6.0, or an exact one.", "VERSION", read=exact_version)
    """A key of `artifacts.VERSIONS`, or an exact version."""
    heap_bytes: int | None = system.size_option(
        None, "of each node, such as 512M; else as the machine has it.", "heap"
    )
    """Of each node; None for a default by the machine and the number of nodes."""
    memory_bytes: int | None = system.size_option(
        None, "most of each node, its files in the page cache too, such as 1G; as root.", "memory"
    )
    """The bound on a node and the page cache for its files together; None for no bound."""
    port: int | None = system.port_option("of all nodes; else 9042 or a free one.")
    """Where clients connect, on each node's own address; None for 9042, or a free one if taken."""
    password: Secret | None = None
    """Of the user `cassandra`; None for nodes without login."""
    tls: bool = False
    settings: Settings = system.settings_option("settings of cassandra.yaml, nested with dots.")
    """Settings of cassandra.yaml; values are YAML."""
    network: bool = False
    """Whether each node has its own address and link, which faults can disturb."""


def check(options: CassandraOptions) -> None:
    """Refuses options that can't be used.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    exact_version(options.version)
    check_options(options, _NAME, _DECIDED, _LONGEST_PASSWORD)
    for name, _ in options.settings:
        first, _, rest = name.partition(".")
        if first == _TLS and (not rest or rest in _TLS_DECIDED):
            raise UsageError(f"set: {name} is the testbed's own; give --tls")
    # Contradictions are refused before anything is fetched.
    settings_tree(options.settings)


def token(index: int, nodes: int) -> int:
    """The end of a node's part of the ring; all parts are equal."""
    return -_RING // 2 + index * _RING // nodes


def settings_text(
    options: CassandraOptions, testbed: Testbed, node: Node, certificates: Certificates | None
) -> str:
    """The text of cassandra.yaml for one node; private, as it may have the keystore's password."""
    hosts = [each.host for each in testbed.nodes]
    storage_port, _ = node.more_ports
    has_accord = exact_version(options.version).startswith("6.")
    # A node of 5.0 that starts again needs any living seed. One of 6.0 remembers the others, and
    # agrees with them sooner at its first start if there is one seed to ask.
    seeds = ",".join(f"{host}:{storage_port}" for host in (hosts[:1] if has_accord else hosts))
    text = template("cassandra/cassandra.yaml").format(
        cluster_name=testbed.facts["cluster_name"],
        seeds=seeds,
        host=node.host,
        storage_port=storage_port,
        port=node.port,
        token=token(hosts.index(node.host), len(hosts)),
    )
    settings: dict[str, Any] = _yaml().load(text)
    if options.password is not None:
        settings |= _LOGIN
    if has_accord:
        # After it was killed, a node doesn't know its votes in transactions and refuses to start.
        # With other nodes it can learn again; alone it may continue, as no other node has a vote.
        policy = "REBOOTSTRAP" if len(hosts) > 1 else "ALLOW_UNSAFE_STARTUP"
        settings["accord"] = {"enabled": True, "journal": {"stop_marker_failure_policy": policy}}
    _merge(settings, settings_tree(options.settings))
    if settings["commitlog_sync"] == "periodic":
        settings.setdefault("commitlog_sync_period", "10000ms")
    if certificates is not None:
        encryption = {
            "enabled": True,
            "optional": False,
            "keystore": str(certificates.keystore),
            "keystore_password": certificates.keystore_password.read_text(),
            "store_type": "PKCS12",
        }
        _merge(settings, {_TLS: encryption})
    output = io.StringIO()
    _yaml().dump(settings, output)
    return output.getvalue()


def settings_tree(settings: Settings) -> dict[str, Any]:
    """Settings as a tree: names are split at their dots, values are read as YAML.

    Raises:
        UsageError: a value isn't YAML, or a setting is both a value and a group of others.
    """
    tree: dict[str, Any] = {}
    for name, text in settings:
        *groups, last = name.split(".")
        branch = tree
        for group in groups:
            inner = branch.setdefault(group, {})
            if not isinstance(inner, dict):
                raise UsageError(f"set: {name} is inside {group}, which was given a value already")
            branch = inner
        try:
            branch[last] = _yaml().load(text)
        except (YAMLError, ValueError) as problem:
            lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
            reason = lines[0] if lines else type(problem).__name__
            raise UsageError(f"set: the value of {name} is not YAML: {reason}") from problem
    return tree


def jvm_text(testbed: Testbed, node: Node, artifacts: Artifacts, heap_bytes: int) -> str:
    """The options of a node's virtual machine, as an `@` file of Java.

    A node with bound cores uses their number, even while it may use more.
    """
    _, exporter_port = node.more_ports
    folder = testbed.folder_of(node)
    values = {
        "heap_mib": heap_bytes // _MIB,
        "jamm": next(path for path in artifacts.jars if path.name.startswith("jamm-")),
        "exporter": artifacts.exporter,
        "exporter_address": f"{node.host}:{exporter_port}",
        "config": (folder / "cassandra.yaml").as_uri(),
        "folder": folder,
        "copies": min(3, len(testbed.nodes)),
        "jars": ":".join(map(str, artifacts.jars)),
    }
    # They are in quotation marks.
    escaped = {
        name: str(value).replace("\\", "\\\\").replace('"', '\\"') for name, value in values.items()
    }
    cores = f'"-XX:ActiveProcessorCount={len(node.cores)}"\n' if node.cores else ""
    return cores + template("cassandra/jvm.args").format(**escaped)


def _merge(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Adds settings to others; groups are merged, values replace those before them."""
    for name, value in more.items():
        before = settings.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        else:
            settings[name] = value


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    # The server's version of YAML, in which `yes` and `off` are truth values.
    yaml.version = (1, 1)
    yaml.default_flow_style = False
    return yaml


def heap_of(total_bytes: int, nodes: int) -> int:
    """The default heap of each node, by Cassandra's own rule for an equal part of the machine.

    The rule: half of the memory up to 1 GiB, or a quarter of it up to 8 GiB, whichever is more. It
    depends on the machine's total memory, not on free memory, so that it is the same each time.
    """
    share = total_bytes // nodes
    heap = max(min(share // 2, _GIB), min(share // 4, 8 * _GIB))
    return max(_LEAST_DEFAULT_BYTES, heap // _STEP_BYTES * _STEP_BYTES)


def check_memory(heap_bytes: int, nodes: int, available_bytes: int) -> None:
    """Refuses heaps that are too small, or that need more memory than is available.

    Raises:
        UsageError: with the figures.
    """
    if heap_bytes < _LEAST_HEAP_BYTES:
        raise UsageError(
            f"heap: {heap_bytes // _MIB} MiB are too little for Cassandra; give at least"
            f" {_LEAST_HEAP_BYTES // _MIB}M"
        )
    needed = nodes * (heap_bytes + _OVERHEAD_BYTES)
    if needed > available_bytes:
        count = "1 node" if nodes == 1 else f"{nodes} nodes"
        raise UsageError(
            f"{count} with a heap of {heap_bytes // _MIB} MiB and {_OVERHEAD_BYTES // _MIB} MiB"
            f" beside it need {needed // _MIB} MiB of memory, and {available_bytes // _MIB} MiB"
            " are available: start fewer --nodes, or lower --heap"
        )


def check_bound(bound_bytes: int, heap_bytes: int) -> None:
    """Refuses a bound on a node's memory that is less than the node needs.

    Raises:
        UsageError: with the figures.
    """
    needed = heap_bytes + _OVERHEAD_BYTES
    if bound_bytes < needed:
        raise UsageError(
            f"memory: a node with a heap of {heap_bytes // _MIB} MiB and {_OVERHEAD_BYTES // _MIB}"
            f" MiB beside it doesn't fit in {bound_bytes // _MIB} MiB: give at least"
            f" {needed // _MIB}M, or lower --heap"
        )


def up(options: CassandraOptions, root: Path, tell: Tell = lambda _: None) -> Testbed:
    """Starts a testbed in a new folder below `root`, and waits until it is healthy.

    If that fails, no process is left; the folder is left only for the log that the error names.

    Args:
        options: the testbed.
        root: the folder of testbeds.
        tell: reports progress.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: a node doesn't start, or isn't healthy in time.
    """
    check(options)
    java = find_java()
    memory = psutil.virtual_memory()
    heap_bytes = options.heap_bytes or heap_of(memory.total, options.nodes)
    check_memory(heap_bytes, options.nodes, memory.available)
    if options.memory_bytes is not None:
        check_bound(options.memory_bytes, heap_bytes)
    names = [f"node-{index + 1}" for index in range(options.nodes)]
    network = networks.choose_network(names) if options.network else None
    saved = find_saved(root, options.dataset, "cassandra") if options.dataset else None
    version = exact_version(options.version)
    prepare = partial(_prepare, fetch(version, tell))
    facts: dict[str, Any] = {
        "heap_bytes": heap_bytes,
        "memory_bytes": options.memory_bytes,
        "java": java.version,
    }
    starts = 1
    while True:
        hosts, ports = _places(options, network, saved, first=starts == 1)
        folder = make_folder(root, "cassandra", options.name)
        nodes = [
            Node(
                name=name,
                role="peer",
                host=host,
                port=ports[0],
                command=networks.inside(network, name, _command(java.program, folder / name)),
                cores=options.cores,
                more_ports=tuple(ports[1:]),
            )
            for name, host in zip(names, hosts, strict=True)
        ]
        try:
            testbed = planned(
                "cassandra",
                folder,
                options,
                nodes,
                f"cql://{','.join(node.address for node in nodes)}",
                facts={
                    **facts,
                    "cluster_name": _cluster_name(saved),
                    "exporter_port": ports[2],
                },
                username=USER,
                network=network,
                version=version,
                heap_bytes=heap_bytes,
            )
            return launch(testbed, options, SYSTEM, prepare, partial(_complete, tell))
        except PortTakenError:
            if starts == _MOST_STARTS:
                raise
            starts += 1
            tell("Another program took a port just now: starting with others")


def _check_again(testbed: Testbed, tell: Tell) -> None:
    """Checks the memory for nodes that are down, and fetches their program if it is missing."""
    gone = sum(not node.lives for node in testbed.nodes)
    check_memory(testbed.facts["heap_bytes"], gone, psutil.virtual_memory().available)
    fetch(testbed.made_with.get("version", testbed.version), tell)


def _cluster_name(saved: Testbed | None) -> str:
    """A unique name, so that nodes of other clusters don't join; or that in the nodes' data."""
    return saved.facts["cluster_name"] if saved else f"kvmark {secrets.token_hex(4)}"


def _saved_ports(saved: Testbed, options: CassandraOptions, hosts: list[str]) -> list[int]:
    """The ports of a saved cluster: each node's data has the addresses of the others.

    Raises:
        UsageError: a port is in use, or the addresses would differ.
    """
    ports = [saved.nodes[0].port, *saved.nodes[0].more_ports]
    same = [node.host for node in saved.nodes] == hosts and options.port in {None, ports[0]}
    if not same or not all(networks.is_free(port, host) for host in hosts for port in ports):
        raise UsageError(
            f"the nodes' data has their addresses, {saved.url} and ports {ports[1:]}: leave --port"
            " and --network out, and stop the testbed or program that listens there"
        )
    return ports


def _places(
    options: CassandraOptions, network: Network | None, saved: Testbed | None, *, first: bool
) -> tuple[list[str], list[int]]:
    """The nodes' addresses, and the ports on each: for clients, storage and the exporter.

    The ports are free now; at the first attempt the usual ones if possible. Two testbeds that start
    at the same time would conflict on the usual ports again and again.
    """
    hosts = [f"127.0.0.{index + 1}" for index in range(options.nodes)]
    if network is not None:
        hosts = list(map(network.host, network.servers))
    if saved is not None and len(saved.nodes) == len(hosts) > 1:
        return hosts, _saved_ports(saved, options, hosts)
    if network is not None:
        (clients,) = networks.consecutive_ports(options.port or _USUAL_PORT, 1)
        if clients in {_USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT}:
            raise UsageError(f"port {clients} is the nodes' own: choose another --port")
        return hosts, [clients, _USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT]
    ports: list[int] = []
    for usual in (_USUAL_PORT, _USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT):
        wanted, first_choice = None if ports else options.port, usual if first else None
        ports += networks.choose_ports(wanted, hosts=hosts, usual=first_choice, but=ports)
    return hosts, ports


def _command(java: str, folder: Path) -> tuple[str, ...]:
    """The command that starts a node; each program replaces itself with the next one."""
    words = ["env", "MALLOC_ARENA_MAX=4"]
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is not None:
        # With the right to lock memory, the whole heap is resident from the start.
        words += [setpriv, "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    return (*words, java, f"@{folder / 'jvm.args'}")


def _prepare(
    artifacts: Artifacts,
    testbed: Testbed,
    options: CassandraOptions,
    certificates: Certificates | None,
) -> None:
    """Writes the files of the nodes."""
    if certificates is not None:
        certificates.make_keystore()
    for node in testbed.nodes:
        folder = testbed.folder_of(node)
        (folder / "tmp").mkdir()
        text = settings_text(options, testbed, node, certificates)
        write_private(folder / "cassandra.yaml", text)
        jvm = jvm_text(testbed, node, artifacts, testbed.facts["heap_bytes"])
        (folder / "jvm.args").write_text(jvm, encoding="utf-8")
        for name in ("logback.xml", "jmx-exporter.yaml"):
            (folder / name).write_text(template(f"cassandra/{name}"), encoding="utf-8")


def _complete(tell: Tell, testbed: Testbed, options: CassandraOptions) -> None:
    """Sets the password, and reports progress until all nodes answer."""
    count = len(testbed.nodes)
    heap = f"with a heap of {testbed.facts['heap_bytes'] // 2**20} MiB"
    number = f"{count} {'nodes' if count > 1 else 'node'}"
    tell(f"Starting Cassandra {testbed.made_with['version']}, {number} {heap}")
    if options.password is not None:
        _change_password(testbed, options.password)
    for index, node in enumerate(testbed.nodes):
        server.wait_for_answer(testbed, node, _HEALTHY_WITHIN_S)
        tell(f"{index + 1} of {count} answer")


def _change_password(testbed: Testbed, password: Secret) -> None:
    """Sets the first user's password, as soon as the nodes have created the user."""
    first = testbed.nodes[0]
    options = {**parse_system_url(testbed.url).options, "address": first.address}
    quoted = password.reveal().replace("'", "''")

    def changed() -> bool:
        statement = f"ALTER ROLE {USER} WITH PASSWORD = '{quoted}'"
        Console(DRIVER, options, _FIRST_PASSWORD).ask(statement)
        return True

    server.wait(testbed, first, changed, "take its password", _HEALTHY_WITHIN_S)


SYSTEM: Final = System(
    "cassandra",
    CassandraOptions,
    up,
    server.wait_for_answer,
    server.wait_for_node,
    server.describe,
    server.ExporterMeter,
    _OWN_FILES,
    _HEALTHY_WITHIN_S,
    refusal=server.refusal,
    version_of=server.version_of,
    keeps_log=True,
    driver=DRIVER,
    tables=server.tables,
    check_again=_check_again,
    saving=Saving(("data",), ("version", "nodes"), has_password=True),
)
