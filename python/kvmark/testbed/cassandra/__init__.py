"""Cassandra: one node, or several on this machine, each with an equal part of the ring."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed import launch as launching
from kvmark.testbed import network as networks
from kvmark.testbed import state
from kvmark.testbed.cassandra import config, server
from kvmark.testbed.cassandra.artifacts import Artifacts, exact_version, fetch, find_java
from kvmark.testbed.cassandra.config import CassandraOptions
from kvmark.testbed.cassandra.server import DRIVER, USER
from kvmark.testbed.console import Console
from kvmark.testbed.launch import PortTakenError, launch, planned
from kvmark.testbed.network import Network
from kvmark.testbed.state import Node, Testbed, make_folder, template, write_private
from kvmark.testbed.system import System, Tell

_OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{launching.CERTIFICATE_FILES}"
    r"|node-\d+/(cassandra\.yaml|jvm\.args|logback\.xml|jmx-exporter\.yaml|server\.log"
    r"|hs_err\.log|(data|tmp)/.+))"
)

_HEALTHY_WITHIN_S: Final = 180.0
"""Nodes start in some ten seconds each, and later on a busy machine."""

_USUAL_PORT: Final = 9042
_USUAL_STORAGE_PORT: Final = 7000
_USUAL_EXPORTER_PORT: Final = 9501
_FIRST_PASSWORD: Final = Secret("cassandra")
_MOST_STARTS: Final = 3
"""Attempts with other ports: another program may take one before a node listens there."""


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
    config.check(options)
    java = find_java()
    memory = psutil.virtual_memory()
    heap_bytes = options.heap_bytes or config.heap_of(memory.total, options.nodes)
    config.check_memory(heap_bytes, options.nodes, memory.available)
    if options.memory_bytes is not None:
        config.check_bound(options.memory_bytes, heap_bytes)
    network = networks.choose_network(_names(options)) if options.network else None
    artifacts = fetch(exact_version(options.version), tell)
    prepare, complete = partial(_prepare, artifacts), partial(_complete, tell)
    starts = 1
    while True:
        hosts, ports = _places(options, network, first=starts == 1)
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
            for name, host in zip(_names(options), hosts, strict=True)
        ]
        try:
            testbed = _planned(options, folder, nodes, heap_bytes, java.version, network)
            return launch(testbed, options, SYSTEM, prepare, complete)
        except PortTakenError:
            if starts == _MOST_STARTS:
                raise
            starts += 1
            tell("Another program took a port just now: starting with others")


def _check_again(testbed: Testbed, tell: Tell) -> None:
    """Checks the memory for nodes that are down, and fetches their program if it is missing."""
    gone = sum(not node.lives for node in testbed.nodes)
    config.check_memory(testbed.facts["heap_bytes"], gone, psutil.virtual_memory().available)
    fetch(testbed.made_with.get("version", testbed.version), tell)


def _places(
    options: CassandraOptions, network: Network | None, *, first: bool
) -> tuple[list[str], list[int]]:
    """The nodes' addresses, and the ports on each: for clients, storage and the exporter.

    The ports are free now; at the first attempt the usual ones if possible. Two testbeds that start
    at the same time would conflict on the usual ports again and again.
    """
    if network is not None:
        hosts = list(map(network.host, network.servers))
        (clients,) = networks.consecutive_ports(options.port or _USUAL_PORT, 1)
        if clients in {_USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT}:
            raise UsageError(f"port {clients} is the nodes' own: choose another --port")
        return hosts, [clients, _USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT]
    hosts = [f"127.0.0.{index + 1}" for index in range(options.nodes)]
    ports = [networks.common_port(hosts, _USUAL_PORT if first else None, options.port)]
    for usual in (_USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT):
        ports.append(networks.common_port(hosts, usual if first else None, but=ports))
    return hosts, ports


def _names(options: CassandraOptions) -> list[str]:
    return [f"node-{index + 1}" for index in range(options.nodes)]


def _planned(
    options: CassandraOptions,
    folder: Path,
    nodes: list[Node],
    heap_bytes: int,
    java: str,
    network: Network | None,
) -> Testbed:
    """The testbed before its first process."""
    facts = {
        "heap_bytes": heap_bytes,
        "memory_bytes": options.memory_bytes,
        "java": java,
        # Unique, so that nodes of other clusters on this machine don't join.
        "cluster_name": f"kvmark {secrets.token_hex(4)}",
        "exporter_port": nodes[0].more_ports[1],
    }
    return planned(
        "cassandra",
        folder,
        options,
        nodes,
        f"cql://{','.join(node.address for node in nodes)}",
        facts=facts,
        username=USER,
        network=network,
        version=exact_version(options.version),
        heap_bytes=heap_bytes,
    )


def _command(java: str, folder: Path) -> tuple[str, ...]:
    """The command that starts a node; each program replaces itself with the next one."""
    words = ["env", "MALLOC_ARENA_MAX=4"]
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is not None:
        # With the right to lock memory, the whole heap is resident from the start.
        words += [setpriv, "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    return (*words, java, f"@{folder / 'jvm.args'}")


def _prepare(artifacts: Artifacts, testbed: Testbed, options: CassandraOptions) -> None:
    """Writes the files of the nodes."""
    certificates = None
    if options.tls:
        hosts = [node.host for node in testbed.nodes]
        certificates = launching.make_certificates(testbed.folder, hosts)
        certificates.make_keystore()
    for node in testbed.nodes:
        folder = testbed.folder_of(node)
        (folder / "tmp").mkdir(parents=True)
        text = config.settings_text(options, testbed, node, certificates)
        write_private(folder / "cassandra.yaml", text)
        jvm = config.jvm_text(testbed, node, artifacts, testbed.facts["heap_bytes"])
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
        try:
            Console(DRIVER, options, _FIRST_PASSWORD).ask(
                f"ALTER ROLE {USER} WITH PASSWORD = '{quoted}'"
            )
        except SystemUnderTestError:
            return False
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
)
