"""Starts a Cassandra testbed: nodes on this machine, each with an equal part of the ring."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed import certificates as tls
from kvmark.testbed import network as networks
from kvmark.testbed import state
from kvmark.testbed.cassandra.artifacts import Artifacts, Tell, exact_version, fetch, find_java
from kvmark.testbed.cassandra.config import (
    Keystore,
    Place,
    Wanted,
    check,
    check_bound,
    check_memory,
    heap_of,
    jvm_text,
    settings_text,
    write_companions,
)
from kvmark.testbed.cassandra.describe import version_of
from kvmark.testbed.cassandra.health import (
    DRIVER,
    USER,
    refused_setting,
    wait,
    wait_for_answer,
    wait_for_node,
)
from kvmark.testbed.console import Console
from kvmark.testbed.launch import Launch, PortTakenError, launch, planned
from kvmark.testbed.network import Network
from kvmark.testbed.ports import common_port, ports_elsewhere
from kvmark.testbed.process import make_group, remove_group
from kvmark.testbed.state import (
    Node,
    Testbed,
    make_folder,
    write_private,
)

OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{tls.OWN_FILES}"
    r"|node-\d+/(cassandra\.yaml|jvm\.args|logback\.xml|jmx-exporter\.yaml|server\.log"
    r"|hs_err\.log|(data|tmp)/.+))"
)
"""What a Cassandra testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 180.0
"""How long nodes may take to start: some ten seconds each, and more on a busy machine."""

_USUAL_PORT: Final = 9042
_USUAL_STORAGE_PORT: Final = 7000
_USUAL_EXPORTER_PORT: Final = 9501
_FIRST_PASSWORD: Final = Secret("cassandra")
_STARTS: Final = 3
"""How often ports are chosen: another program may take one before a node listens there."""


def up(wanted: Wanted, root: Path, tell: Tell = lambda _: None) -> Testbed:
    """Starts what is wanted, in a folder of its own below `root`, and waits until it is healthy.

    If that fails no process is left; the folder is left only for the log that the error names.

    Args:
        wanted: the testbed.
        root: the folder of testbeds.
        tell: is told what goes on.

    Raises:
        UsageError: what is wanted can't be started here.
        SystemUnderTestError: a node doesn't start, or isn't healthy in time.
    """
    check(wanted)
    java = find_java()
    memory = psutil.virtual_memory()
    heap_bytes = wanted.heap_bytes or heap_of(memory.total, wanted.nodes)
    check_memory(heap_bytes, wanted.nodes, memory.available)
    if wanted.memory_bytes is not None:
        check_bound(wanted.memory_bytes, heap_bytes)
    network = networks.choose_network(_names(wanted)) if wanted.network else None
    artifacts = fetch(exact_version(wanted.version), tell)
    facts = {"heap_bytes": heap_bytes, "memory_bytes": wanted.memory_bytes, "java": java.version}
    starts = 1
    while True:
        try:
            ports = _ports(wanted, network, first=starts == 1)
            return _started(wanted, root, java.program, facts, artifacts, network, ports, tell)
        except PortTakenError:
            if starts == _STARTS:
                raise
            starts += 1
            tell("Another program took a port just now: starting with others")


def check_again(testbed: Testbed, tell: Tell) -> None:
    """Makes sure that there is memory for nodes that are gone, and the program that they ran.

    Raises:
        UsageError: there isn't enough memory, or Cassandra can't be fetched again.
    """
    gone = sum(not node.lives for node in testbed.nodes)
    check_memory(testbed.facts["heap_bytes"], gone, psutil.virtual_memory().available)
    fetch(testbed.made_with.get("version", testbed.version), tell)


def _started(
    wanted: Wanted,
    root: Path,
    java: str,
    facts: Mapping[str, Any],
    artifacts: Artifacts,
    network: Network | None,
    ports: _Ports,
    tell: Tell,
) -> Testbed:
    """The testbed at these ports, healthy; nothing is left of one that isn't."""
    folder = make_folder(root, "cassandra", wanted.name)
    places = _places(ports, folder)
    steps = Launch(
        prepare=lambda testbed: _prepare(wanted, testbed, places, artifacts),
        complete=lambda testbed: _healthy(wanted, testbed, tell),
        refusal=_refusal,
        own_files=OWN_FILES,
        keeps_log=True,
    )
    return launch(_planned(wanted, folder, java, places, dict(facts), network), wanted, steps)


@dataclass(frozen=True, slots=True)
class _Ports:
    """Where the nodes listen: the same ports, each node on an address of its own."""

    hosts: tuple[str, ...]
    clients: int
    storage: int
    exporter: int


def _names(wanted: Wanted) -> list[str]:
    return [f"node-{index + 1}" for index in range(wanted.nodes)]


def _ports(wanted: Wanted, network: Network | None, *, first: bool) -> _Ports:
    """Ports that are free now: at the first attempt the usual ones, if they are.

    Later they aren't asked for: two that start side by side, each in the other's way, would meet
    there again.
    """
    if network is not None:
        hosts = tuple(map(network.host, network.servers))
        (clients,) = ports_elsewhere(wanted.port or _USUAL_PORT, 1)
        taken = {_USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT}
        if clients in taken:
            raise UsageError(f"port {clients} is the nodes' own: choose another --port")
        return _Ports(hosts, clients, _USUAL_STORAGE_PORT, _USUAL_EXPORTER_PORT)
    hosts = tuple(f"127.0.0.{index + 1}" for index in range(wanted.nodes))
    clients = common_port(hosts, _USUAL_PORT if first else None, wanted.port)
    storage = common_port(hosts, _USUAL_STORAGE_PORT if first else None, but=[clients])
    exporter = common_port(hosts, _USUAL_EXPORTER_PORT if first else None, but=[clients, storage])
    return _Ports(hosts, clients, storage, exporter)


def _places(ports: _Ports, folder: Path) -> list[Place]:
    # Nodes of another cluster on this machine must never take these for their own.
    name = f"kvmark {secrets.token_hex(4)}"
    return [
        Place(
            folder=folder / f"node-{index + 1}",
            cluster_name=name,
            hosts=ports.hosts,
            index=index,
            port=ports.clients,
            storage_port=ports.storage,
            exporter_port=ports.exporter,
        )
        for index in range(len(ports.hosts))
    ]


def _planned(
    wanted: Wanted,
    folder: Path,
    java: str,
    places: list[Place],
    facts: dict[str, Any],
    network: Network | None,
) -> Testbed:
    """The testbed before its first process."""

    def command(place: Place) -> tuple[str, ...]:
        words = _command(java, place.folder)
        return words if network is None else networks.inside(network, place.folder.name, words)

    nodes = tuple(
        Node(
            name=place.folder.name,
            role="peer",
            host=place.host,
            port=place.port,
            command=command(place),
            cores=wanted.cores,
            more_ports=(place.storage_port, place.exporter_port),
        )
        for place in places
    )
    facts |= {"cluster_name": places[0].cluster_name, "exporter_port": places[0].exporter_port}
    version = exact_version(wanted.version)
    testbed = planned(
        "cassandra",
        folder,
        wanted,
        nodes,
        f"cql://{','.join(node.address for node in nodes)}",
        facts=facts,
        username=USER,
        network=network,
        version=version,
        heap_bytes=facts["heap_bytes"],
    )
    return testbed.model_copy(update={"version": version})


def _command(java: str, folder: Path) -> tuple[str, ...]:
    """The words that start a node; each program puts the next one in its own place."""
    words = ["env", "MALLOC_ARENA_MAX=4"]
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is not None:
        # Who may lock memory has the whole heap in memory from the start on, used or not.
        words += [setpriv, "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    return (*words, java, f"@{folder / 'jvm.args'}")


def _bounded(wanted: Wanted, testbed: Testbed) -> Testbed:
    """The testbed with a bound on each node's memory, if one is wanted."""
    if wanted.memory_bytes is None:
        return testbed
    cluster = str(testbed.facts["cluster_name"]).replace(" ", "-")
    groups: list[Path] = []
    try:
        for name in (f"{cluster}-{node.name}" for node in testbed.nodes):
            groups += [make_group(name, wanted.memory_bytes)]
    except UsageError:
        for group in groups:
            remove_group(group)
        raise
    nodes = (
        node.model_copy(update={"group": group})
        for node, group in zip(testbed.nodes, groups, strict=True)
    )
    return testbed.model_copy(update={"nodes": tuple(nodes)})


def _prepare(
    wanted: Wanted, testbed: Testbed, places: list[Place], artifacts: Artifacts
) -> Testbed:
    """Writes everything the nodes read; the testbed with bounds on memory, if any are wanted."""
    keystore = None
    if wanted.tls:
        made = tls.make_certificates(testbed.folder, places[0].hosts)
        keystore = Keystore(made.keystore, tls.make_keystore(made))
    for place in places:
        (place.folder / "tmp").mkdir(parents=True)
        write_companions(place.folder)
        write_private(place.folder / "cassandra.yaml", settings_text(wanted, place, keystore))
        text = jvm_text(place, artifacts, testbed.facts["heap_bytes"], len(wanted.cores))
        (place.folder / "jvm.args").write_text(text, encoding="utf-8")
    return _bounded(wanted, testbed)


def _healthy(wanted: Wanted, testbed: Testbed, tell: Tell) -> Testbed:
    """Waits until all is as it is wanted; the testbed with its version."""
    count = len(testbed.nodes)
    heap = f"with a heap of {testbed.facts['heap_bytes'] // 2**20} MiB"
    tell(f"Starting Cassandra {testbed.version}, {count} {'nodes' if count > 1 else 'node'} {heap}")
    if wanted.password is not None:
        _change_password(testbed, wanted.password)
    for index, node in enumerate(testbed.nodes):
        wait_for_answer(testbed, node, HEALTHY_WITHIN_S)
        tell(f"{index + 1} of {count} answer")
    for node in testbed.nodes:
        wait_for_node(testbed, node, HEALTHY_WITHIN_S)
    return testbed.model_copy(update={"version": version_of(testbed)})


def _change_password(testbed: Testbed, password: Secret) -> None:
    """Gives the first user its password, as soon as the nodes have made that user."""
    first = testbed.nodes[0]
    options = parse_system_url(testbed.url).options
    quoted = password.reveal().replace("'", "''")

    def changed() -> bool:
        try:
            Console(DRIVER, {**options, "address": first.address}, _FIRST_PASSWORD).ask(
                f"ALTER ROLE {USER} WITH PASSWORD = '{quoted}'"
            )
        except SystemUnderTestError:
            return False
        return True

    wait(testbed, first, changed, "take its password", HEALTHY_WITHIN_S)


def _refusal(log: Path) -> str | None:
    """The setting that a node refused, if that is why it ended."""
    setting = refused_setting(log)
    return setting and f"Cassandra refused a setting: {setting}"
