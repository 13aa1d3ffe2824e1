"""Starts the servers of a testbed: for the first time, and again on the data that they kept.

Every system's launcher ends here, so that whatever fails leaves the same: no process and no network
of that start; of a first one no folder either, and of a later one every file.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.removal import discard_folder
from kvmark.secret import Secret
from kvmark.testbed import network as networks
from kvmark.testbed import process
from kvmark.testbed.certificates import Certificates
from kvmark.testbed.ports import is_free
from kvmark.testbed.process import joining, make_group, remove_group
from kvmark.testbed.state import Node, Testbed, owner_of, write_private
from kvmark.testbed.system import OwnFiles, System
from kvmark.testbed.words import kept_wishes

RETURNS_WITHIN_S: Final = 1800.0
"""How long servers may take to return, each: they read all the data that they kept."""

_PASSWORD: Final = "password"  # noqa: S105 - a file's name
_IN_USE: Final = re.compile(
    r"address already in use|cannot bind socket|is in use by another process|failed to bind port",
    re.IGNORECASE,
)


class PortTakenError(UsageError):
    """Another program has taken a port that was free when it was chosen."""

    def __init__(self, node: Node) -> None:
        ports = ", ".join(map(str, (node.port, *node.more_ports)))
        super().__init__(
            f"a port of {node.host} ({ports}) was taken by another program just now: try again"
        )


@dataclass(frozen=True, slots=True)
class Launch:
    """What one system does when its servers are started for the first time."""

    prepare: Callable[[Testbed], Testbed]
    """Writes everything that the servers read, beside the password."""
    complete: Callable[[Testbed], Testbed]
    """Waits until all is as it is wanted; the testbed with what is known only now."""
    refusal: Callable[[Path], str | None]
    """What a log gives as the reason why its server ended, where the user can mend it."""
    own_files: OwnFiles
    keeps_log: bool = False
    """Whether the folder stays for the log that an error without a refusal names."""


def planned(
    system: str,
    folder: Path,
    wanted: Any,
    nodes: Sequence[Node],
    url: str,
    *,
    facts: Mapping[str, Any] = MappingProxyType({}),
    username: str | None = None,
    network: networks.Network | None = None,
    **decided: Any,
) -> Testbed:
    """A testbed before its first process; its version is said later.

    Args:
        system: the system's name.
        folder: its folder.
        wanted: what was wished.
        nodes: its servers.
        url: what `--system` takes, but for the files to read secrets from.
        facts: what the system's own module needs later, but for those files.
        username: of whom the password is; None where the scheme says TLS, and a password is enough.
        network: a network of its own.
        decided: what was left open in the wishes, by their names.
    """
    places = {}
    if getattr(wanted, "password", None) is not None:
        places["password_file"] = str(folder / _PASSWORD)
    if getattr(wanted, "tls", False):
        places["ca_file"] = str(Certificates(folder / "tls").authority)
    own = {"password_file": f"username={username}", "ca_file": "tls=true"} if username else {}
    for name, place in places.items():
        for option in filter(None, (own.get(name), f"{name}={quote(place)}")):
            url += f"{'&' if '?' in url else '?'}{option}"
    return Testbed(
        name=folder.name,
        system=system,
        version="",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        url=url,
        nodes=tuple(nodes),
        network=network,
        facts={**facts, **places},
        made_with=kept_wishes(wanted, port=nodes[0].port, **decided),
        folder=folder,
    )


def launch(testbed: Testbed, wanted: Any, steps: Launch) -> Testbed:
    """Starts a testbed that was planned, in its empty folder, and waits until it is healthy.

    Raises:
        UsageError: what is wanted can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    testbed = testbed.model_copy(update={"was_up": False})
    try:
        if testbed.network is not None:
            # Written down before it is made, so that it can be removed whatever happens.
            testbed.write()
            networks.build_network(testbed.network)
            _give_service(testbed)
        password: Secret | None = getattr(wanted, "password", None)
        if password is not None:
            write_private(testbed.folder / _PASSWORD, password.reveal())
        testbed = steps.prepare(testbed)
        for node in testbed.nodes:
            testbed = start_node(testbed, node.name)
        testbed = steps.complete(testbed).model_copy(update={"was_up": True})
        testbed.write()
    except BaseException as problem:
        failed = isinstance(problem, SystemUnderTestError)
        refused = _refusal(testbed, steps) if failed else None
        stop_servers(testbed)
        if not (failed and refused is None and steps.keeps_log):
            # A file that isn't ours would be a reason to keep the folder, not to hide the error.
            discard_folder(testbed.folder, steps.own_files)
        if refused is not None:
            raise refused from problem
        raise
    return testbed


def _refusal(testbed: Testbed, steps: Launch) -> KvmarkError | None:
    """The error for what a log gives as the reason why a server ended."""
    for node in testbed.nodes:
        log = testbed.log_of(node)
        if node.lives:
            continue
        if _IN_USE.search(process.tail(log)):
            return PortTakenError(node)
        found = steps.refusal(log)
        if found is not None:
            return UsageError(found)
    return None


def start_again(testbed: Testbed, system: System, tell: Callable[[str], None]) -> Testbed:
    """Starts the servers of a testbed that aren't there, as they were and on their data.

    Those that are there are left alone; if it fails those are stopped that it started.

    Raises:
        UsageError: what the testbed had, such as a port, isn't free any more.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    with _held(testbed.folder, testbed.name):
        testbed = Testbed.read(testbed.folder)
        _check_complete(testbed)
        gone = [node for node in testbed.nodes if not node.lives]
        if not gone:
            return testbed
        _check_ports(testbed, gone)
        system.check_again(testbed, tell)
        tell(f"Starting {testbed.name} again: {', '.join(node.name for node in gone)}")
        begun: list[str] = []
        try:
            testbed = _surrounded(testbed, gone)
            for node in gone:
                testbed = start_node(testbed, node.name)
                begun.append(node.name)
            for node in testbed.nodes:
                system.wait_for_node(testbed, node, RETURNS_WITHIN_S)
        except BaseException:
            if len(gone) == len(testbed.nodes):
                stop_servers(testbed)
            else:
                process.stop(_processes(testbed.node(name) for name in begun))
            raise
        return testbed


def start_node(testbed: Testbed, name: str) -> Testbed:
    """Starts one server with its command, on its cores and in its group; doesn't wait for it.

    Returns:
        The testbed with the server's new process, written down.

    Raises:
        UsageError: a core can't be used.
        SystemUnderTestError: the program can't be executed.
    """
    node = testbed.node(name)
    command = node.command if node.group is None else joining(node.group, node.command)
    started = process.start(command, testbed.log_of(node), cores=node.cores)
    return testbed.with_process(name, started)


def stop_servers(testbed: Testbed) -> tuple[Node, ...]:
    """Stops all servers at once, and removes groups and network; the servers that were there.

    Raises:
        SystemUnderTestError: one can't be stopped.
    """
    known = {node.process: node for node in testbed.nodes if node.process is not None}
    stopped = tuple(known[each] for each in process.stop(known))
    for node in testbed.nodes:
        if node.group is not None:
            remove_group(node.group)
    if testbed.network is not None:
        networks.remove_network(testbed.network)
    return stopped


def _check_complete(testbed: Testbed) -> None:
    """Refuses a testbed that never was whole, or that another kvmark is just making."""
    if not testbed.was_up:
        name = testbed.name
        raise UsageError(
            f"testbed '{name}' has never been up, its start goes on or has failed: wait, or remove"
            f" it with kvmark down {name} --remove, or start another with --new"
        )


def _check_ports(testbed: Testbed, gone: Sequence[Node]) -> None:
    """Refuses ports that somebody else has now."""
    name = testbed.name
    if testbed.network is not None:
        return
    for node in gone:
        for port in (node.port, *node.more_ports):
            if is_free(port, node.host):
                continue
            owner = owner_of(f"{node.host}:{port}", testbed.folder.parent)
            who = "another program" if owner is None else f"testbed '{owner.name}'"
            raise UsageError(
                f"port {port} of {node.host}, which testbed '{name}' listened on, is in use by"
                f" {who}: stop that first, or start another testbed with --new"
            )


def _surrounded(testbed: Testbed, gone: Sequence[Node]) -> Testbed:
    """The testbed with its network and its servers' groups, which `kvmark down` has removed."""
    if testbed.network is not None and len(gone) == len(testbed.nodes):
        networks.rebuild_network(testbed.network)
        _give_service(testbed)
    groups: dict[str, Path] = {}
    for node in gone:
        if node.group is not None:
            remove_group(node.group)
            groups[node.name] = make_group(node.group.name, testbed.facts["memory_bytes"])
    nodes = tuple(
        node.model_copy(update={"group": groups.get(node.name, node.group)})
        for node in testbed.nodes
    )
    return testbed.model_copy(update={"nodes": nodes})


def _give_service(testbed: Testbed) -> None:
    """Gives the address that clients know, where there is one, to the first server."""
    if testbed.network is not None and "service" in testbed.facts:
        networks.move_service(testbed.network, testbed.nodes[0].name)


def _processes(nodes: Iterable[Node]) -> list[process.Identity]:
    return [node.process for node in nodes if node.process is not None]


@contextmanager
def _held(folder: Path, name: str) -> Iterator[None]:
    """Keeps other kvmarks from starting the same servers meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another kvmark is starting testbed '{name}' just now: wait for it"
            ) from None
        yield
    finally:
        os.close(handle)
