"""Starts a proxy before a system that is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kvmark.errors import UsageError
from kvmark.testbed import state
from kvmark.testbed.launch import Launch, launch, planned
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
    write_private,
)

__all__ = ["HEALTHY_WITHIN_S", "OWN_FILES", "check_again", "up"]

OWN_FILES: Final = re.compile(
    rf"{state.OWN_FILES}"
    r"|[a-z-]+/(haproxy\.cfg|topology\.yaml|config\.yaml|cql-proxy\.yaml|server\.log)"
)
"""What a proxy's testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 30.0
"""How long a proxy may take to start."""


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
    check_target(wanted.to.host, wanted.to.port)
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
    check_target(host, int(port))
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
