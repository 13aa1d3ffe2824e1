"""Starts a proxy before a system that is there, with its settings; waits for it, describes it.

All of them pass on what comes and do nothing else: what is measured is the way through.
"""

from __future__ import annotations

import hashlib
import json
import re
import resource
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import state
from kvmark.testbed.launch import Launch, launch, planned
from kvmark.testbed.ports import HOST, choose_ports
from kvmark.testbed.process import wait_until
from kvmark.testbed.proxy.programs import Program, find_program
from kvmark.testbed.proxy.wanted import SHOTOVER_SPEAKS, Kind, Target, Wanted, check, threads_of
from kvmark.testbed.state import (
    Node,
    Testbed,
    make_folder,
    owner_of,
    write_private,
)
from kvmark.testbed.system import Counted

OWN_FILES: Final = re.compile(
    rf"{state.OWN_FILES}"
    r"|[a-z-]+/(haproxy\.cfg|topology\.yaml|config\.yaml|cql-proxy\.yaml|server\.log)"
)
"""What a proxy's testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 30.0
"""How long a proxy may take to start."""

_MOST_CONNECTIONS: Final = 20_000
_OWN_FILES: Final = 200
_FILES_A_CONNECTION: Final = 2

_HAPROXY: Final = """\
global
    nbthread {threads}
    maxconn {connections}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen kvmark
    bind {host}:{port}
    server system {to_host}:{to_port}
"""
_SHOTOVER: Final = """\
---
sources:
  - {source}:
      name: "kvmark"
      listen_addr: "{host}:{port}"
      connection_limit: {connections}
      chain:
        - {sink}:
            remote_address: "{to_host}:{to_port}"
            connect_timeout_ms: 5000
"""
_SHOTOVER_LOG: Final = """\
---
main_log_level: "warn"
"""
_CQL_PROXY: Final = """\
contact-points: ["{to_host}"]
port: {to_port}
bind: "{host}:{port}"
"""

_CONNECTS_WITHIN_S = 5.0

# Where it listens and where the system is differs from testbed to testbed and means nothing.
_PLACE: Final = re.compile(r"([\w.-]+|\[[0-9a-f:]+\]):\d+|(?<=port: )\d+")


def up(wanted: Wanted, root: Path, tell: Callable[[str], None] = lambda _: None) -> Testbed:
    """Starts a proxy, in a folder of its own below `root`, and waits until it accepts.

    If that fails nothing is left, neither a process nor the folder.

    Args:
        wanted: the proxy.
        root: the folder of testbeds.
        tell: is told what goes on: a proxy may have to be built first.

    Raises:
        UsageError: what is wanted can't be started here.
        SystemUnderTestError: the system isn't there, or the proxy can't be built or doesn't start.
    """
    check(wanted)
    _check_nodes(wanted, root)
    _check_target(wanted.to.host, wanted.to.port)
    program = find_program(wanted.kind, wanted.build or "release", tell)
    (port,) = choose_ports(wanted.port, 1)
    folder = make_folder(root, wanted.kind, wanted.name)
    steps = Launch(
        prepare=_prepare, complete=_accepting, refusal=lambda _: None, own_files=OWN_FILES
    )
    return launch(_planned(wanted, folder, program, port), wanted, steps)


def check_again(testbed: Testbed, tell: Callable[[str], None]) -> None:
    """Makes sure that the system is there before which a proxy stood, and the proxy's program.

    Raises:
        UsageError: the program is missing.
        SystemUnderTestError: the system isn't there, or the program can't be built.
    """
    host, _, port = testbed.facts["behind"].rpartition(":")
    _check_target(host, int(port))
    find_program(testbed.facts["kind"], testbed.facts["build"] or "release", tell)


def _prepare(testbed: Testbed) -> Testbed:
    folder = testbed.folder_of(testbed.nodes[0])
    folder.mkdir()
    for name, text in testbed.facts["files"].items():
        write_private(folder / name, text)
    return testbed


def _accepting(testbed: Testbed) -> Testbed:
    wait_for_proxy(testbed, testbed.nodes[0], HEALTHY_WITHIN_S)
    return testbed


def _planned(wanted: Wanted, folder: Path, program: Program, port: int) -> Testbed:
    """The testbed before its process."""
    threads = threads_of(wanted)
    place = Place(folder / wanted.kind, HOST, port)
    facts: dict[str, Any] = {
        "kind": wanted.kind,
        "build": program.build,
        "threads": threads,
        "to": wanted.to.text,
        "behind": f"{wanted.to.host}:{wanted.to.port}",
        "files": dict(files(wanted.kind, place, wanted.to, threads)),
    }
    node = Node(
        name=wanted.kind,
        role="proxy",
        host=HOST,
        port=port,
        command=command(wanted.kind, program.path, place.folder, threads),
        cores=wanted.cores,
    )
    testbed = planned(
        "proxy",
        folder,
        wanted,
        [node],
        _url(wanted.to, node.address),
        facts=facts,
        to=wanted.to.text,
        threads=threads,
        build=program.build or None,
    )
    return testbed.model_copy(update={"version": f"{wanted.kind} {program.version}"})


def _url(to: Target, address: str) -> str:
    """What `--system` takes: the system's URL with the proxy's address in place of its own."""
    scheme, _, rest = to.text.partition("://")
    hosts = re.match(r"[^/?]*", rest)
    return f"{scheme}://{address}{rest[hosts.end() if hosts else 0 :]}"


def _check_nodes(wanted: Wanted, root: Path) -> None:
    """Refuses a cluster behind a proxy that hides no nodes, as far as it is known to be one."""
    owner = owner_of(f"{wanted.to.host}:{wanted.to.port}", root)
    others = 0 if owner is None else sum(node.role == "peer" for node in owner.nodes) - 1
    if owner is not None and others > 0 and wanted.kind != "cql-proxy":
        raise UsageError(
            f"to: {owner.name} has {others + 1} nodes, and its clients find the others and go round"
            f" {wanted.kind}; start one node with kvmark up cassandra --nodes 1"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a proxy listens and keeps its files."""

    folder: Path
    host: str
    port: int


def files(kind: Kind, place: Place, to: Target, threads: int) -> Mapping[str, str]:
    """The files that a proxy reads, by name."""
    source, sink = SHOTOVER_SPEAKS.get(to.driver, ("", ""))
    values = {
        "host": place.host,
        "port": place.port,
        "to_host": f"[{to.host}]" if ":" in to.host else to.host,
        "to_port": to.port,
        "threads": threads,
        "connections": _connections(),
        "source": source,
        "sink": sink,
    }
    match kind:
        case "haproxy":
            return {"haproxy.cfg": _HAPROXY.format(**values)}
        case "shotover":
            return {"topology.yaml": _SHOTOVER.format(**values), "config.yaml": _SHOTOVER_LOG}
        case "cql-proxy":
            return {"cql-proxy.yaml": _CQL_PROXY.format(**values)}


def command(kind: Kind, program: str, folder: Path, threads: int) -> tuple[str, ...]:
    """The words that start a proxy in the foreground."""
    match kind:
        case "haproxy":
            return (program, "-db", "-f", str(folder / "haproxy.cfg"))
        case "shotover":
            topology, config = str(folder / "topology.yaml"), str(folder / "config.yaml")
            read = ("--topology-file", topology, "--config-file", config)
            return (program, *read, "--core-threads", str(threads))
        case "cql-proxy":
            # Go's runtime takes the number of its threads from its environment alone.
            config = str(folder / "cql-proxy.yaml")
            return ("env", f"GOMAXPROCS={threads}", program, "--config", config)


def _connections() -> int:
    """Connections that may be open: many, and not more than this process's own limit allows.

    A limit without bound would let HAProxy set memory aside for all of it.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(1, min(_MOST_CONNECTIONS, (soft - _OWN_FILES) // _FILES_A_CONNECTION))


def _check_target(host: str, port: int) -> None:
    """Makes sure that something listens where the proxy would pass operations on.

    Raises:
        SystemUnderTestError: nothing does.
    """
    try:
        socket.create_connection((host, port), timeout=_CONNECTS_WITHIN_S).close()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SystemUnderTestError(
            f"to: {host}:{port} can't be reached ({reason}): start the system first, or"
            " correct --to"
        ) from problem


def wait_for_proxy(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a proxy accepts.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    what = "accept connections"
    wait_until(lambda: _accepts(node), what, testbed.watched(node), within_s)


def _accepts(node: Node) -> bool:
    """Whether the proxy listens: another program may have taken the port.

    Asked of the kernel: a connection would be one more for the system behind it.
    """
    if node.process is None:
        return False
    try:
        found = psutil.Process(node.process.pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == node.port for one in found)


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: kind, version, build, threads, and the files that the proxy reads."""
    facts = testbed.facts
    known = {name: facts[name] for name in ("kind", "build", "threads", "files")}
    kept = {**known, "files": {n: _PLACE.sub("", text) for n, text in facts["files"].items()}}
    text = json.dumps({**kept, "version": testbed.version}, sort_keys=True)
    return {
        **testbed.described(),
        "kind": facts["kind"],
        "build": facts["build"],
        "threads": facts["threads"],
        "to": facts["to"],
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "settings": facts["files"],
    }


class NoMeter:
    """Asks a proxy nothing: what its process uses is seen from outside."""

    def __init__(self, testbed: Testbed, node: Node) -> None:
        """Takes what every meter is given."""

    def look(self) -> Counted:
        """Nothing."""
        return Counted()

    def close(self) -> None:
        """Lets go of nothing."""
