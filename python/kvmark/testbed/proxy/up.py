"""Starts a proxy before a system that is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import process, state
from kvmark.testbed.ports import HOST, choose_ports
from kvmark.testbed.proxy.health import check_target, wait_for_proxy
from kvmark.testbed.proxy.programs import Program, find_program
from kvmark.testbed.proxy.settings import Place, command, files
from kvmark.testbed.proxy.wanted import Target, Wanted, check, threads_of
from kvmark.testbed.state import (
    Node,
    Testbed,
    make_folder,
    owner_of,
    remove_folder,
    write_private,
)

__all__ = ["HEALTHY_WITHIN_S", "OWN_FILES", "up"]

OWN_FILES: Final = re.compile(
    rf"{state.OWN_FILES}"
    r"|[a-z-]+/(haproxy\.cfg|topology\.yaml|config\.yaml|cql-proxy\.yaml|server\.log)"
)
"""What a proxy's testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 30.0
"""How long a proxy may take to start."""

_IN_USE: Final = re.compile(r"Address already in use|cannot bind socket", re.IGNORECASE)


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
    check_target(wanted.to)
    program = find_program(wanted.kind, wanted.build or "release", tell)
    (port,) = choose_ports(wanted.port, 1)
    folder = make_folder(root, wanted.kind, wanted.name)
    testbed = _planned(wanted, folder, program, port)
    node = testbed.nodes[0]
    try:
        testbed.folder_of(node).mkdir()
        for name, text in testbed.facts["files"].items():
            write_private(testbed.folder_of(node) / name, text)
        started = process.start(node.command, testbed.log_of(node), cores=node.cores)
        testbed = testbed.with_process(node.name, started)
        wait_for_proxy(testbed, testbed.nodes[0], HEALTHY_WITHIN_S)
    except BaseException as problem:
        in_use = _IN_USE.search(process.tail(testbed.log_of(node)))
        process.stop([each.process for each in testbed.nodes if each.process])
        # A file that isn't ours would be a reason to keep the folder, not to hide the first error.
        with suppress(SystemUnderTestError):
            remove_folder(folder, OWN_FILES)
        if in_use and isinstance(problem, SystemUnderTestError):
            raise UsageError(
                f"port {port} of {HOST} was taken by another program just now: try again"
            ) from problem
        raise
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
    return Testbed(
        name=folder.name,
        system="proxy",
        version=f"{wanted.kind} {program.version}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        url=_url(wanted.to, node.address),
        nodes=(node,),
        facts=facts,
        folder=folder,
    )


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
