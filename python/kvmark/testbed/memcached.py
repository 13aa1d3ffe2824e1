"""memcached: one server, or several with a part of the keys each.

Also the items of servers with its protocol that anyone may have started: their owner and removal.
The options of the driver name these servers. Each server that kvmark found empty has an additional
item, its mark, which isn't counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.interrupts import pause
from kvmark.secret import Secret
from kvmark.testbed import console as consoles
from kvmark.testbed import launch as launching
from kvmark.testbed import process, state, system
from kvmark.testbed.console import Console, connect, naming_server
from kvmark.testbed.launch import Certificates, find_server, launch, planned
from kvmark.testbed.network import HOST, choose_ports
from kvmark.testbed.state import Node, Testbed, make_folder, write_private
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey, System, Tell, TestbedOptions

_OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|users|{launching.CERTIFICATE_FILES}|node-\d+/server\.log)"
)
_HEALTHY_WITHIN_S: Final = 60.0

_FILES: Final = "failed to set rlimit for open files"
# Messages about options that it refuses.
_REFUSED: Final = re.compile(
    r".*(?:unrecognized option|Illegal|doesn't allow an argument|requires an argument"
    r"|not supported|must be|can not|cannot be|Unknown).*"
)

_RESERVED_CLIENTS: Final = 32
"""Connections beyond the option: the observer, and manual inspection."""
_USERNAME: Final = "kvmark"
"""The user, if there is a password."""

_MIB: Final = 2**20
_LEAST_ITEM_BYTES: Final = 2**10
_MOST_ITEM_BYTES: Final = 2**30
_MOST_THREADS: Final = 64
_LONGEST_PASSWORD: Final = 128
_NAME: Final = re.compile(r"[a-z][a-z-]*")

# Options that a testbed decides itself, by the advice.
_DECIDED: Final = {
    "give --memory": "memory-limit",
    "give --maxclients": "conn-limit",
    "give --item-size": "max-item-size",
    "give --password-file": "auth-file",
    "give --tls": "enable-ssl",
    "a testbed listens on TCP": "listen unix-socket udp-port",
    "kvmark speaks the text protocol": "protocol enable-sasl",
    "kvmark keeps the process itself": "daemon pidfile user",
    "a server has to be started": "help license version",
}

# These differ between testbeds and don't affect measurements.
_PLACES: Final = re.compile(
    "tcpport|udpport|inter|oldest|auth_enabled_ascii|ssl_chain_cert|ssl_key|ssl_ca_cert"
)

_MARK: Final = "kvmark:dataset"
_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.1
_LISTING_MS: Final = 300_000
"""Listing all items takes long if there are many."""
_MOST_LISTED: Final = 1_000_000
"""A listing takes about 100 bytes for each item of an unknown server."""
_KEY: Final = re.compile(r"^key=(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemcachedOptions(TestbedOptions):
    """The options of a memcached testbed."""

    nodes: int = system.option(1, "servers, each with a part of the keys.", "N", least=1)
    port: int | None = system.port_option("of the first server; else free ones.")
    """The first server's port, the others' above it; None for free ones."""
    threads: int | None = system.option(
        None, "threads of each server; else 4.", "N", least=1, most=_MOST_THREADS
    )
    memory_bytes: int = system.size_option(
        2**30, "most for items of each server, such as 64M; else 1G.", "memory"
    )
    """The limit for items of each server, which isn't allocated in advance."""
    item_size_bytes: int | None = system.size_option(
        None, "largest item, such as 8M; else 1M.", "item_size"
    )
    maxclients: int = system.option(10_000, "connections for clients.", "N", least=1)
    password: Secret | None = None
    tls: bool = False
    settings: system.Settings = system.settings_option(
        "any long option of memcached, yes for one without a value."
    )
    """Further options by their long names."""
    server: str = system.option("memcached", "the server's program.", "PROGRAM", in_studies=False)


def check(options: MemcachedOptions) -> None:
    """Refuses options that can't be used.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    if options.memory_bytes < _MIB:
        raise UsageError("memory: must be at least 1M")
    item = options.item_size_bytes
    if item is not None and not _LEAST_ITEM_BYTES <= item <= _MOST_ITEM_BYTES:
        raise UsageError("item-size: must be from 1K to 1G")
    if item is not None and 2 * item > options.memory_bytes:
        raise UsageError("item-size: must be at most half of the memory; raise --memory")
    system.check_options(options, _NAME, _DECIDED, _LONGEST_PASSWORD)
    if options.password is not None and re.search(r"[\s:]", options.password.reveal()):
        raise UsageError("the password must have no blanks and no colons, for memcached")


def up(options: MemcachedOptions, root: Path, _tell: Tell = lambda _: None) -> Testbed:
    """Starts a testbed in a new folder below `root`, and waits until it is healthy.

    If that fails, neither a process nor the folder is left.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    check(options)
    program = find_server(options.server, "memcached")
    launching.check_memory(options.nodes, options.memory_bytes, "lower --memory")
    ports = choose_ports(options.port, options.nodes)
    folder = make_folder(root, "memcached", options.name)
    nodes = [
        Node(
            name=f"node-{number}",
            role="peer",
            host=HOST,
            port=port,
            command=(program, *arguments(options, folder, port)),
            cores=options.cores,
        )
        for number, port in enumerate(ports, 1)
    ]
    url = f"memcached://{','.join(node.address for node in nodes)}"
    testbed = planned("memcached", folder, options, nodes, url, username=_USERNAME)
    return launch(testbed, options, SYSTEM, _prepare)


def arguments(options: MemcachedOptions, folder: Path, port: int) -> list[str]:
    """The arguments of one server; no secret in them."""
    found = [f"--listen={HOST}", f"--port={port}", "--udp-port=0"]
    found += [f"--memory-limit={options.memory_bytes // _MIB}"]
    found += [f"--conn-limit={options.maxclients + _RESERVED_CLIENTS}"]
    if os.geteuid() == 0:
        # By default, it doesn't run as root.
        found.append("--user=root")
    if options.threads is not None:
        found.append(f"--threads={options.threads}")
    if options.item_size_bytes is not None:
        found.append(f"--max-item-size={options.item_size_bytes}")
    if options.password is not None:
        found.append(f"--auth-file={folder / 'users'}")
    if options.tls:
        made = Certificates(folder / "tls")
        files = f"ssl_chain_cert={made.server},ssl_key={made.key}"
        found += ["--enable-ssl", f"--extended={files}"]
    for name, value in options.settings:
        found.append(f"--{name}" if value == "yes" else f"--{name}={value}")
    return found


def _prepare(testbed: Testbed, options: MemcachedOptions, _: Certificates | None) -> None:
    """Writes the file with the user's password."""
    if options.password is not None:
        write_private(testbed.folder / "users", f"{_USERNAME}:{options.password.reveal()}\n")


def _version_of(testbed: Testbed) -> str:
    version: str = connect(testbed, testbed.nodes[0]).ask("version")
    return version.removeprefix("VERSION ")


def _refusal(log: Path) -> str | None:
    """The option that a server refused, if that is why it ended."""
    text = process.tail(log)
    if _FILES in text:
        return (
            "the server may not open a file for each client: raise `ulimit -n`, or lower"
            " --maxclients"
        )
    refused = _REFUSED.search(text)
    return refused and f"the server refused an option: {refused[0].strip()}"


def _wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    def answers() -> bool:
        # Another program may have taken the port.
        pid = stats(connect(testbed, node)).get("pid")
        return node.process is not None and pid == str(node.process.pid)

    testbed.wait_until(answers, "answer stats", within_s, node)


def _carried(console: Console) -> tuple[str, str]:
    counters = stats(console)
    return counters["bytes_written"], counters["bytes_read"]


def stats(console: Console, *section: str) -> dict[str, str]:
    """The lines `STAT name value` of a server."""
    lines = (line.split(" ", 2) for line in console.ask("stats", *section).splitlines())
    return {words[1]: words[2] for words in lines if words[0] == "STAT"}


@dataclass(frozen=True, slots=True)
class _Server:
    """One of the servers among which keys are divided."""

    address: str
    console: Console
    listing: Console
    """The same server, with a limit for long replies."""

    def items(self) -> int | None:
        """The number of items without the mark; None if the server doesn't count them."""
        with naming_server(self.address, "doesn't report its contents"):
            count = stats(self.console).get("curr_items")
        if count is None:
            return None
        # Flushed items are counted until the server visits them, but aren't listed.
        keys = self._keys() if 0 < int(count) <= _MOST_LISTED else None
        if keys is None:
            return int(count) - (self.claim() is not None)
        return sum(key != _MARK for key in keys)

    def claim(self) -> str | None:
        """The claim in the server's mark; None without one."""
        with naming_server(self.address, "doesn't report its contents"):
            lines = self.console.ask("get", _MARK).splitlines()
        return str(lines[1]) if len(lines) > 1 else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of an item whose key isn't one's own; None without one."""
        keys = self._keys()
        if keys is None:
            return f"items that the server at {self.address} doesn't list"
        foreign = (key for key in keys if key != _MARK and not is_own(key))
        return next((f"the key {key!r}" for key in foreign), None)

    def _keys(self) -> Sequence[str] | None:
        """All keys; None from a server that doesn't list them, such as one before 1.6.9.

        It walks the hash table: items move between the lists of `metadump all`, which misses some.
        """
        for _ in range(_ATTEMPTS):
            try:
                listed = str(self.listing.ask("lru_crawler", "metadump", "hash"))
            except SystemUnderTestError:
                return None
            if not listed.startswith("BUSY"):
                ended = listed.endswith("END")
                return [unquote(key) for key in _KEY.findall(listed)] if ended else None
            pause(_PAUSE_S)
        return None


def contents(options: DriverOptions, password: Secret | None) -> Contents | None:
    """The items of the servers; None if one doesn't count them.

    Raises:
        SystemUnderTestError: a server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    patient = {**options, "connect_timeout_ms": str(_LISTING_MS)}
    servers = [
        _Server(
            address,
            Console("memcached", {**options, "address": address}, password),
            Console("memcached", {**patient, "address": address}, password),
        )
        for address in options["address"].split(",")
    ]
    counts = [server.items() for server in servers]
    if None in counts:
        return None
    items = sum(count or 0 for count in counts)
    claims = {server.claim() for server, count in zip(servers, counts, strict=True) if count}

    def foreign(is_own: IsOwnKey) -> str | None:
        return next(filter(None, (server.foreign_key(is_own) for server in servers)), None)

    def remove() -> None:
        for server in servers:
            with naming_server(server.address, consoles.CANNOT_EMPTY):
                server.console.ask("flush_all")

    def mark(claim: str) -> None:
        for server in servers:
            with naming_server(server.address, consoles.CANNOT_MARK):
                server.console.ask("set", _MARK, 0, 0, f"{len(claim)}\r\n{claim}")

    # A server with items and no mark was replaced, restarted or full: the items may be others'.
    own = claims.pop() if len(claims) == 1 else None
    found = f"{items:,} items" if items else None
    return Contents(found, "name an empty server", own, foreign, remove, mark)


SYSTEM: Final = System(
    "memcached",
    MemcachedOptions,
    up,
    _wait_for_answer,
    _wait_for_answer,
    partial(consoles.describe, read=lambda one: stats(one, "settings"), places=_PLACES),
    partial(consoles.NetworkMeter, carried=_carried),
    _OWN_FILES,
    _HEALTHY_WITHIN_S,
    refusal=_refusal,
    version_of=_version_of,
    driver="memcached",
    contents=contents,
    forgets=lambda _: "memcached keeps its data in memory only",
)
