"""Starts a memcached testbed: one server, or several that divide the keys among them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kvmark.testbed import certificates as tls
from kvmark.testbed import process, state
from kvmark.testbed.launch import Launch, launch, planned
from kvmark.testbed.memcached.describe import version_of
from kvmark.testbed.memcached.health import wait_for_answer
from kvmark.testbed.memcached.wanted import USERNAME, Place, Wanted, check, words
from kvmark.testbed.ports import HOST, choose_ports
from kvmark.testbed.servers import check_memory, find_server
from kvmark.testbed.state import Node, Testbed, make_folder, write_private

__all__ = ["HEALTHY_WITHIN_S", "OWN_FILES", "up"]

OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|users|{tls.OWN_FILES}|node-\d+/server\.log)"
)
"""What a memcached testbed consists of, as paths in its folder."""

HEALTHY_WITHIN_S: Final = 60.0
"""How long servers may take to start."""

_FILES: Final = "failed to set rlimit for open files"
# What it says of an option that it doesn't take.
_REFUSED: Final = re.compile(
    r".*(?:unrecognized option|Illegal|doesn't allow an argument|requires an argument"
    r"|not supported|must be|can not|cannot be|Unknown).*"
)


def up(wanted: Wanted, root: Path, _tell: Callable[[str], None] = lambda _: None) -> Testbed:
    """Starts what is wanted, in a folder of its own below `root`, and waits until it is healthy.

    If that fails nothing is left, neither a process nor the folder.

    Raises:
        UsageError: what is wanted can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    check(wanted)
    program = find_server(wanted.server, "memcached")
    check_memory(wanted.nodes, wanted.memory_bytes, "lower --memory")
    ports = choose_ports(wanted.port, wanted.nodes)
    folder = make_folder(root, "memcached", wanted.name)
    steps = Launch(
        prepare=lambda testbed: _prepare(wanted, testbed),
        complete=_healthy,
        refusal=_refusal,
        own_files=OWN_FILES,
    )
    return launch(_planned(wanted, folder, program, ports), wanted, steps)


def _planned(wanted: Wanted, folder: Path, program: str, ports: list[int]) -> Testbed:
    """The testbed before its first process."""
    made = tls.Certificates(folder / "tls") if wanted.tls else None
    users = None if wanted.password is None else str(folder / "users")
    nodes = tuple(
        Node(
            name=f"node-{number}",
            role="peer",
            host=HOST,
            port=port,
            command=(program, *words(wanted, Place(HOST, port, users), made)),
            cores=wanted.cores,
        )
        for number, port in enumerate(ports, 1)
    )
    url = f"memcached://{','.join(node.address for node in nodes)}"
    return planned("memcached", folder, wanted, nodes, url, username=USERNAME)


def _prepare(wanted: Wanted, testbed: Testbed) -> Testbed:
    """Writes everything the servers read."""
    if wanted.password is not None:
        write_private(testbed.folder / "users", f"{USERNAME}:{wanted.password.reveal()}\n")
    if wanted.tls:
        tls.make_certificates(testbed.folder, [HOST])
    for node in testbed.nodes:
        testbed.folder_of(node).mkdir()
    return testbed


def _healthy(testbed: Testbed) -> Testbed:
    """Waits until all servers answer; the testbed with its version."""
    for node in testbed.nodes:
        wait_for_answer(testbed, node, HEALTHY_WITHIN_S)
    return testbed.model_copy(update={"version": version_of(testbed)})


def _refusal(log: Path) -> str | None:
    """What of the wishes a server's log gives as the reason why it ended."""
    said = process.tail(log)
    if _FILES in said:
        return (
            "the server may not open a file for each client: raise `ulimit -n`, or lower"
            " --maxclients"
        )
    refused = _REFUSED.search(said)
    return refused and f"the server refused an option: {refused[0].strip()}"
