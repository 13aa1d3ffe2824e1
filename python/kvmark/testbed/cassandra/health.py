"""When the nodes of a Cassandra testbed are healthy, and why they are not.

The log of a node says why it is not there. Of a server elsewhere it is asked what kind of CQL
server it is, before anything is made on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed import console
from kvmark.testbed.console import Console
from kvmark.testbed.process import ran_out, wait_until
from kvmark.testbed.state import Node, Testbed

DRIVER: Final = "cql"
USER: Final = "cassandra"
"""The user that a cluster with passwords begins with."""

_SWITCHES = ("accord.enabled", "accord_enabled")

_STARTS: Final = re.compile(r"CassandraDaemon\.java:\d+ - Hostname: ")
_REFUSED: Final = re.compile(
    r"^Exception \(\S+\.ConfigurationException\) encountered during startup: (.+)", re.MULTILINE
)
# What is behind "Invalid yaml": the settings from the outermost to the innermost, and the cause.
_SETTING: Final = re.compile(r"Cannot create property=(\w+) for")
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.+)", re.MULTILINE)
# Reasons why a node isn't there, the most telling first.
_REASONS: Final = (
    re.compile(r"^Exception \((?:\w+\.)*\w+\) encountered during startup: (.+)"),
    re.compile(r"^(?:[\w$]+\.)*ConfigurationException: (.+)"),
    re.compile(r"^(Terminating due to java\.lang\.OutOfMemoryError.*)"),
    re.compile(r"^Caused by: (java\.net\.BindException.*)"),
    re.compile(r"^(?:Error|Invalid): (.+)|^(Error occurred during initialization of VM.*)"),
    re.compile(r"^(?:ERROR|FATAL) \[.*?\] \S+ \S+ \S+ - (.+)"),
    re.compile(r"^\s*(\S.*)"),
)
_LONGEST: Final = 300
_READ_BYTES: Final = 4 * 2**20


def connect(
    testbed: Testbed, node: Node, timeout_s: float = 5.0, consistency: str = "one"
) -> console.Console:
    """A node of a testbed; what each has to itself is read at ONE."""
    return console.connect(testbed, node, timeout_s, consistency=consistency)


def wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node answers CQL.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait(testbed, node, lambda: _answers(testbed, node), "answer CQL", within_s)


def wait_for_node(testbed: Testbed, node: Node, within_s: float) -> None:
    """Waits until a node knows all others, agrees with them on tables, and reads from all of them.

    Raises:
        SystemUnderTestError: it ends, or the time is over; quotes its log.
    """
    wait_for_answer(testbed, node, within_s)
    wait(testbed, node, lambda: _knows_all(testbed, node), "know all nodes", within_s)
    wait(testbed, node, lambda: _reads_from_all(testbed, node), "read from all nodes", within_s)


def wait(
    testbed: Testbed, node: Node, condition: Callable[[], bool], what: str, within_s: float
) -> None:
    """Waits for a condition of a node.

    Raises:
        SystemUnderTestError: the node ends, or the time is over; quotes its log.
    """
    try:
        wait_until(condition, what, testbed.watched(node), within_s)
    except SystemUnderTestError as problem:
        name = f"{testbed.name}/{node.name}"
        if node.group is not None and not node.lives and ran_out(node.group):
            raise SystemUnderTestError(
                f"{name} was killed by the kernel, because it needs more memory than it may take:"
                " give more --memory, or lower --heap"
            ) from problem
        log = testbed.log_of(node)
        found = reason_in(log)
        if found is None:
            raise
        happened = f"did not {what} within {within_s:g} s" if node.lives else "ended by itself"
        raise SystemUnderTestError(
            f"{name} {happened}; line {found.number} of {log} says: {found.text}"
        ) from problem


def _answers(testbed: Testbed, node: Node) -> bool:
    """Whether the node answers, and is ours: another program may have taken the port."""
    try:
        (local,) = connect(testbed, node).ask("SELECT cluster_name FROM system.local")
    except (SystemUnderTestError, ValueError):
        return False
    return bool(local["cluster_name"] == testbed.facts["cluster_name"])


def _knows_all(testbed: Testbed, node: Node) -> bool:
    """Whether the node knows the address of every node, and all have the same tables."""
    try:
        client = connect(testbed, node)
        known = client.ask("SELECT rpc_address, schema_version FROM system.local")
        known += client.ask("SELECT rpc_address, schema_version FROM system.peers")
    except SystemUnderTestError:
        return False
    addresses = {row["rpc_address"] for row in known}
    schemas = {row["schema_version"] for row in known}
    return addresses == {each.host for each in testbed.nodes} and len(schemas) == 1


def _reads_from_all(testbed: Testbed, node: Node) -> bool:
    """Whether a read through this node that needs all nodes succeeds: it sees all of them there."""
    statement = "SELECT keyspace_name FROM system_distributed.view_build_status"
    try:
        connect(testbed, node, consistency="all").ask(statement)
    except SystemUnderTestError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CqlServer:
    """What a server says of itself."""

    version: str
    #: The tables of its keyspace `system`.
    system_tables: frozenset[str]
    #: Whether its transactions are switched on; None where it doesn't say.
    accord: bool | None


def look_at(
    address: str, login: tuple[str, str] | None = None, authority: Path | None = None
) -> CqlServer:
    """Asks the first node of an address.

    Raises:
        SystemUnderTestError: it doesn't answer.
    """
    console = _console(address, login, authority)
    try:
        (local,) = console.ask("SELECT release_version FROM system.local")
        tables = console.ask(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'"
        )
        accord = _accord(console)
    except (SystemUnderTestError, ValueError) as problem:
        raise SystemUnderTestError(f"{address} doesn't say what it is: {problem}") from problem
    names = frozenset(row["table_name"] for row in tables)
    return CqlServer(local["release_version"], names, accord)


def _console(address: str, login: tuple[str, str] | None, authority: Path | None) -> Console:
    options = {"address": address.rpartition("@")[2], "consistency": "one"}
    if authority is not None:
        options |= {"tls": "true", "ca_file": str(authority)}
    user, password = login or ("", None)
    secret = None if password is None else Secret(password)
    return Console(DRIVER, {"username": user, **options} if user else options, secret)


def _accord(console: Console) -> bool | None:
    for name in _SWITCHES:
        try:
            # The name is one of ours.
            query = "SELECT value FROM system_views.settings WHERE name = "
            rows = console.ask(f"{query}'{name}'")
        except SystemUnderTestError:
            # Not Cassandra, or one without these tables.
            return None
        if rows:
            return bool(rows[0]["value"] == "true")
    return None


@dataclass(frozen=True, slots=True)
class ServerLogLine:
    """A line of a log, counted from 1, and what it says."""

    number: int
    text: str


def reason_in(log: Path) -> ServerLogLine | None:
    """The line of a node's log that says why it isn't there, or the last one; None if it's empty.

    Lines from before its last start don't count.
    """
    lines = _lines(log)
    starts = (number for number, line in reversed(lines) if _STARTS.search(line))
    last_start = next(starts, 0)
    since = [(number, line) for number, line in reversed(lines) if number >= last_start]
    for reason in _REASONS:
        for number, line in since:
            if found := reason.search(line):
                return ServerLogLine(number, next(filter(None, found.groups()))[:_LONGEST])
    return None


def refused_setting(log: Path) -> str | None:
    """What a node that was started once says of a setting it doesn't take, or None."""
    text = "\n".join(line for _, line in _lines(log))
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    names = ".".join(dict.fromkeys(_SETTING.findall(text)))
    causes = _CAUSE.findall(text)
    told = f"{names}: {causes[-1]}" if names and causes else refused[1]
    return told[:_LONGEST]


def _lines(log: Path) -> list[tuple[int, str]]:
    """The lines of a log with their numbers; of a very long one the last."""
    try:
        with log.open("rb") as file:
            skipped = max(0, log.stat().st_size - _READ_BYTES)
            before = file.read(skipped).count(b"\n")
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return list(enumerate(text.splitlines(), before + 1))
