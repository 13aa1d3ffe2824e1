"""What is wanted of a memcached testbed; its servers, started, asked and described.

It is one server, or several that divide the keys among them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed import certificates as tls
from kvmark.testbed import process, state
from kvmark.testbed.certificates import Certificates
from kvmark.testbed.console import (
    ANSWERS_WITHIN_S,
    Console,
    NetworkMeter,
    check_memory,
    connect,
    find_server,
    fingerprint,
)
from kvmark.testbed.launch import Launch, launch, planned
from kvmark.testbed.ports import HOST, choose_ports
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Node, Testbed, make_folder, write_private
from kvmark.testbed.words import Word, check_password, check_setting, read_size

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

_RESERVED_CLIENTS: Final = 32
"""Connections beyond those that were asked for: the observer, and a person who looks."""

_USERNAME: Final = "kvmark"
"""Who logs in where there is a password."""

_MIB: Final = 2**20
_LEAST_ITEM_BYTES: Final = 2**10
_MOST_ITEM_BYTES: Final = 2**30
_MOST_THREADS: Final = 64
_LONGEST_PASSWORD: Final = 128
_FLAG: Final = "yes"
_NAME: Final = re.compile(r"[a-z][a-z-]*")

# Options that a testbed decides itself, and what to do instead.
_DECIDED: Final = {
    "port": "give --port",
    "threads": "give --threads",
    "memory-limit": "give --memory",
    "conn-limit": "give --maxclients",
    "max-item-size": "give --item-size",
    "auth-file": "give --password-file",
    "enable-ssl": "give --tls",
    **dict.fromkeys(["listen", "unix-socket", "udp-port"], "a testbed listens on TCP"),
    **dict.fromkeys(["protocol", "enable-sasl"], "kvmark speaks the text protocol"),
    **dict.fromkeys(["daemon", "pidfile", "user"], "kvmark keeps the process itself"),
    **dict.fromkeys(["help", "license", "version"], "a server has to be started"),
}

# What differs from testbed to testbed and means nothing for what is measured.
_PLACES: Final = frozenset(
    {
        *("tcpport", "udpport", "inter", "oldest", "auth_enabled_ascii"),
        *("ssl_chain_cert", "ssl_key", "ssl_ca_cert"),
    }
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
    return planned("memcached", folder, wanted, nodes, url, username=_USERNAME)


def _prepare(wanted: Wanted, testbed: Testbed) -> Testbed:
    """Writes everything the servers read."""
    if wanted.password is not None:
        write_private(testbed.folder / "users", f"{_USERNAME}:{wanted.password.reveal()}\n")
    if wanted.tls:
        tls.make_certificates(testbed.folder, [HOST])
    for node in testbed.nodes:
        testbed.folder_of(node).mkdir()
    return testbed


def _healthy(testbed: Testbed) -> Testbed:
    """Waits until all servers answer; the testbed with its version."""
    for node in testbed.nodes:
        wait_for_answer(testbed, node, HEALTHY_WITHIN_S)
    return testbed.model_copy(update={"version": _version_of(testbed)})


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A memcached testbed as the user wants it."""

    name: str | None = None
    """None for `memcached`, or `memcached-2` and so on if that is taken."""
    nodes: Annotated[int, Word("servers, each with a part of the keys.", "N", least=1)] = 1
    port: Annotated[
        int | None, Word("of the first server; else free ones.", "PORT", in_studies=False)
    ] = None
    """The first server's port, the others' above it; None for free ones."""
    threads: Annotated[int | None, Word("threads of each server; else 4.", "N", least=1)] = None
    memory_bytes: Annotated[
        int,
        Word(
            "most for items of each server, such as 64M; else 1G.",
            "SIZE",
            "memory",
            str,
            partial(read_size, "memory"),
        ),
    ] = 2**30
    """Most for items of each server, which is not set aside before they are there."""
    item_size_bytes: Annotated[
        int | None,
        Word(
            "largest item, such as 8M; else 1M.",
            "SIZE",
            "item_size",
            str,
            partial(read_size, "item-size"),
        ),
    ] = None
    maxclients: Annotated[int, Word("connections for clients.", "N", least=1)] = 10_000
    """Connections for clients; the testbed keeps some more for its own."""
    password: Secret | None = None
    tls: bool = False
    settings: Annotated[
        tuple[tuple[str, str], ...],
        Word(
            "any long option of memcached, yes for one without a value.",
            "KEY=VALUE",
            "set",
            list[str],
            in_studies=False,
        ),
    ] = ()
    """Further options by their long names."""
    cores: tuple[int, ...] = ()
    """The cores that every server is bound to; none for any."""
    server: Annotated[str, Word("the server's program.", "PROGRAM", in_studies=False)] = "memcached"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server listens, and who may log in."""

    host: str
    port: int
    users: str | None
    """The file of users; None where everybody is let in."""


def check(wanted: Wanted) -> None:
    """Refuses what can't be started.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    if not 1 <= (wanted.threads or 1) <= _MOST_THREADS:
        raise UsageError(f"threads: must be from 1 to {_MOST_THREADS}, not {wanted.threads}")
    if wanted.memory_bytes < _MIB:
        raise UsageError("memory: must be at least 1M")
    item = wanted.item_size_bytes
    if item is not None and not _LEAST_ITEM_BYTES <= item <= _MOST_ITEM_BYTES:
        raise UsageError("item-size: must be from 1K to 1G")
    if item is not None and 2 * item > wanted.memory_bytes:
        raise UsageError("item-size: must be at most half of the memory; raise --memory")
    for name, value in wanted.settings:
        check_setting(name, value, _NAME)
        if name in _DECIDED:
            raise UsageError(f"set: {name} is the testbed's own; {_DECIDED[name]}")
    if wanted.password is not None:
        check_password(wanted.password, _LONGEST_PASSWORD)
        if re.search(r"[\s:]", wanted.password.reveal()):
            raise UsageError("the password must have no blanks and no colons, for memcached")


def forgets(_made_with: Mapping[str, Any]) -> str:
    """What is said of servers that began anew without what they held."""
    return "memcached keeps its data in memory only"


def words(wanted: Wanted, place: Place, made: Certificates | None) -> tuple[str, ...]:
    """What stands behind the program's name; no secret in it."""
    found = [f"--listen={place.host}", f"--port={place.port}", "--udp-port=0"]
    found += [f"--memory-limit={wanted.memory_bytes // _MIB}"]
    found += [f"--conn-limit={wanted.maxclients + _RESERVED_CLIENTS}"]
    if os.geteuid() == 0:
        # It doesn't stay root unless it is told to.
        found.append("--user=root")
    if wanted.threads is not None:
        found.append(f"--threads={wanted.threads}")
    if wanted.item_size_bytes is not None:
        found.append(f"--max-item-size={wanted.item_size_bytes}")
    if place.users is not None:
        found.append(f"--auth-file={place.users}")
    if made is not None:
        files = f"ssl_chain_cert={made.server},ssl_key={made.key}"
        found += ["--enable-ssl", f"--extended={files}"]
    for name, value in wanted.settings:
        found.append(f"--{name}" if value == _FLAG else f"--{name}={value}")
    return tuple(found)


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a server answers.

    Raises:
        SystemUnderTestError: it ends, or the time is over.
    """
    wait_until(lambda: _answers(testbed, node), "answer stats", testbed.watched(node), within_s)


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the server answers, and is ours: another program may have taken the port."""
    try:
        pid = told(connect(testbed, node)).get("pid")
    except SystemUnderTestError:
        return False
    return node.process is not None and pid == str(node.process.pid)


def told(console: Console, *of: str) -> dict[str, str]:
    """What a server tells of itself in lines `STAT name value`."""
    lines = (line.split(" ", 2) for line in console.ask("stats", *of).splitlines())
    return {words[1]: words[2] for words in lines if words[0] == "STAT"}


def _version_of(testbed: Testbed) -> str:
    """The version its first server says it has."""
    version: str = connect(testbed, testbed.nodes[0]).ask("version")
    return version.removeprefix("VERSION ")


def _settings_of(testbed: Testbed, node: Node) -> dict[str, str]:
    """The effective settings of a server.

    Raises:
        SystemUnderTestError: it doesn't say.
    """
    try:
        found = told(connect(testbed, node), "settings")
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"{testbed.name}/{node.name} doesn't say its settings: {problem}"
        ) from problem
    return {name: found[name] for name in sorted(found)}


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: version, servers, the first one's settings and their fingerprint.

    Raises:
        SystemUnderTestError: the first server doesn't say its settings.
    """
    settings = _settings_of(testbed, testbed.nodes[0])
    counted = {name: value for name, value in settings.items() if name not in _PLACES}
    return {**testbed.described(), "fingerprint": fingerprint(counted), "settings": settings}


def meter(testbed: Testbed, node: Node) -> NetworkMeter:
    """Asks one server how many bytes its connections carried."""
    return NetworkMeter(connect(testbed, node, ANSWERS_WITHIN_S), _carried)


def _carried(console: Console) -> tuple[str, str]:
    known = told(console)
    return known["bytes_written"], known["bytes_read"]
